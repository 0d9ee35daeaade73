"""The errors that a user may meet."""


class EStreamError(Exception):
    """Something the user can mend: the message is one sentence that names the thing and says what to do.

    The command line prints it without a traceback and exits with a non-zero status.
    """
