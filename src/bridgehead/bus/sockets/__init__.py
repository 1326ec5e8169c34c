"""WebSockets and the little HTTP around them: one listener, one dialler, two libraries
behind one interface.
"""
