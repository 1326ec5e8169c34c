"""Property tests: the suite tries the same examples every time, `make fuzz` many others.

Ctrl-C means the same to every program the tests start, also where the suite itself was started to ignore it (`make
test &` in a script does that to its children).
"""

from __future__ import annotations

import os
import signal

from hypothesis import settings

settings.register_profile("suite", derandomize=True, deadline=None)
settings.register_profile("fuzz", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

signal.signal(signal.SIGINT, signal.default_int_handler)
