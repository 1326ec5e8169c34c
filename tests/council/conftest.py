"""Property tests judge behaviour, not speed: a busy machine must not fail one."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("without-deadline", deadline=None)
settings.load_profile("without-deadline")
