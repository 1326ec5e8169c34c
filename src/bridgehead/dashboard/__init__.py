"""The dashboard (`bridgehead web`): pages over the record, served to the user's own browser.

Adding a page:

1. A module `pages/<noun>.py` with `PAGE = Page(title, path, views, actions)`. A view is `def view(context, request)`
   and returns `context.show(request, PAGE, "<noun>.html", **facts)`; it runs in a thread, so it may read the record. An
   action is `def action(context, request, form)`, runs after the form's CSRF token was checked, and ends with
   `context.go(request, path, note)`. A `BridgeheadError` raised by either becomes a page with its sentence and hint.
2. Its line in `PAGES` of `app.py`, in the order of the navigation.
3. A template that extends `base.html` and fills `block content`; markup shared between pages is in `parts.html`
   (`empty`, `answer_form`, `refuse_form`, `choose`, `field`, `pager`, `csrf`). Everything is escaped and invisible
   characters are spelled out; `|ago` writes a moment, `|clock` the time of day, `|span` seconds. Scripts and styles
   live in `static/`, never inline.
4. Live parts: an element with an `id` and `data-live="council. pending."` (beginnings of event kinds, `*` for all) is
   fetched again and exchanged when such an event is recorded; `data-run="ID"` limits it to one run. A part in which
   someone is typing is left alone; children with ids are exchanged one by one. What changes without an event says
   `data-poll` too and is fetched again every two seconds. A page that lost a live part is loaded anew.

Plots come from `plots.py` (SVG drawn here, with the numbers in a table); colour says state only.
"""
