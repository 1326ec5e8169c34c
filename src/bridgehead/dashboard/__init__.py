"""The dashboard (`bridgehead web`): pages about the record, for the user's own browser.

To add a page:

1. Write a module `pages/<noun>.py` with `PAGE = Page(title, path, views, actions)`.
   A view is `def view(context, request)` and returns `context.show(request, PAGE,
   "<noun>.html", **facts)`. It runs in a thread, so it may read the record. An action
   is `def action(context, request, form)`. It runs after the form's CSRF token was
   checked, and ends with `context.go(request, path, note)`. A `BridgeheadError` raised
   by either is shown as a page with its message and hint.
2. Add it to `PAGES` in `app.py`, in the order of the navigation.
3. Write a template that extends `base.html` and fills `block content`. Markup shared
   between pages is in `parts.html` (`empty`, `answer_form`, `refuse_form`, `choose`,
   `field`, `pager`, `csrf`). Everything is escaped, and invisible characters are
   spelled out. `|ago` and `|clock` format a time, `|span` a number of seconds. Scripts
   and styles are files in `static/`, never inline.
4. Mark live parts: an element with an `id` and `data-live="council. pending."` (the
   beginnings of event kinds, `*` for all) is fetched again and replaced when such an
   event is recorded; `data-run="ID"` limits it to one run. A part in which someone is
   typing is not replaced; children with ids are replaced one by one. A part that
   changes without an event also has `data-poll`, and is fetched every two seconds. A
   page that lost a live part is reloaded.

Plots come from `plots.py`, as SVG with the numbers in a table. Colour only shows state.
"""
