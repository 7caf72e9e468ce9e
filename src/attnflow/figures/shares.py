"""Progress of figures that take several runs: each moves its share of the one bar."""

from attnflow._common.progress import Progress, shown


def shares_of(progress: Progress, count: int) -> list[Progress]:
    """What to hand to each of `count` runs of about one length, one after the other.

    Examples
    --------
    >>> seen = []
    >>> first, second = shares_of(lambda fraction, sentence: seen.append(fraction), 2)
    >>> first(1.0, ""), second(0.5, "")
    (None, None)
    >>> seen
    [0.5, 0.75]
    """
    show = shown(progress)
    if show is None:
        return [False] * count

    def share(place: int) -> Progress:
        return lambda fraction, sentence: show((place + fraction) / count, sentence)

    return [share(place) for place in range(count)]
