"""Who may take part: credentials, enrolment, join files, certificates, the state
folder.
"""
