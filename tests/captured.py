"""A capture that needs no device: captured work is done again at every replay."""


class Captures:
    """Counts what was captured and how often it was replayed; or refuses to capture anything."""

    def __init__(self, error=None):
        self.error = error
        self.made = 0
        self.replays = 0

    def __call__(self, call):
        if self.error is not None:
            raise self.error
        self.made += 1
        answer = call()

        def replay():
            self.replays += 1
            answer.copy_(call())

        answer.zero_()  # nothing is done while work is captured
        return replay, answer
