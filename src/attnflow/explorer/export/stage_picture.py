"""One picture of the stage as page/stage.js draws it: shapes, trails, dots, clusters, words."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from attnflow.explorer.export.stage_background import draw_background
from attnflow.explorer.export.stage_pen import StagePen

MAX_SEGMENTS, FADES, TRAIL_DEPTH = 5_000, 4, 0.45  # lines and parts of trails, share of a circle that they take
MAX_COUNTED, MAX_NAMED, MAX_WORDS = 30, 120, 4  # clusters, tokens, and words of a cluster with a text
MAX_HULL_TOKENS, MAX_TRAILED_TOKENS, MAX_JOINED = (
    500,
    1_000,
    80,
)  # tokens with hull, trails, attention lines
BEHIND = -0.1  # depth below which a text is grey


@dataclass(frozen=True)
class StageFrame:
    """What one picture shows."""

    tokens: np.ndarray
    clusters: np.ndarray
    """Colour of each token's cluster."""
    clock: str
    notes: tuple[str, ...] = ()
    """Texts below the clock."""
    trail: tuple[np.ndarray, ...] = ()
    """Tokens of earlier frames, the latest last; the frame itself is its last."""
    planes: dict[str, Any] | None = None
    attention: np.ndarray | None = None


@dataclass(frozen=True)
class StageScene:
    """What all pictures of one run have in common."""

    is_sphere: bool
    labels: tuple[str, ...] = ()
    parts: tuple[int, ...] = ()
    centres: tuple[int, ...] = ()
    leading: list[float] | None = None
    targets: int = 0
    """Number of tokens, the last ones, that are targets of the others: hollow dots."""


class StagePicture:
    """Draws frames with a pen."""

    def __init__(self, pen: StagePen, scene: StageScene, frame: StageFrame):
        self.pen, self.view, self.scene, self.frame = pen, pen.view, scene, frame
        self.n, self.d = frame.tokens.shape
        self.is_flat = self.d <= 2
        self.seen = self.view.seen(self.view.points(frame.tokens))
        has_colours = "colours" not in self.view.hidden
        self.clusters = frame.clusters if has_colours else np.zeros_like(frame.clusters)
        self._taken: list[tuple[float, float, float]] = []  # places of texts

    @property
    def radius(self) -> float:
        """Pixels of a dot."""
        is_small = min(self.view.width, self.view.height) < 420
        return (0.8 if is_small else 1.0) * min(max(7 * (40 / self.n) ** 0.3, 2.2), 7.0)

    def draw(self) -> None:
        """Draw everything that the view does not hide."""
        hidden, scene = self.view.hidden, self.scene
        self.pen.clear()
        draw_background(self.pen, self.d, scene.is_sphere, scene.leading)
        if "hull" not in hidden:
            self._shapes()
        if "trails" not in hidden and self.n <= MAX_TRAILED_TOKENS:
            self._trails()
        if "lines" not in hidden and scene.labels and self.n <= MAX_JOINED:
            self._attention()
        self._dots()
        if "colours" not in hidden and not scene.targets:
            self._clusters()
        if "centres" not in hidden and scene.centres:
            centres = self.seen[[token for token in scene.centres if token < self.n]]
            self.pen.rings(centres, self.radius + 4, self.pen.theme["ink"], 1.4)
        self._labels()
        self._texts()

    def _shapes(self) -> None:
        if self.frame.planes is not None and self.d <= 3:
            self._planes(self.frame.planes)
        elif not self.scene.is_sphere and self.d >= 2 and self.n <= MAX_HULL_TOKENS:
            self._hull()

    def _hull(self) -> None:
        """The outline in the plane; edges in space, those of hidden faces fainter."""
        # The depth is in radii of the sphere.
        points = self.seen[np.isfinite(self.seen).all(axis=1)] * [1, 1, self.view.scale]
        colour = self.pen.theme["accent"]
        try:
            solid = ConvexHull(points) if not self.is_flat else None
        except QhullError:  # nearly in a plane
            solid = None
        if solid is None:
            try:
                corners = points[ConvexHull(points[:, :2]).vertices, :2]
            except QhullError:  # nearly on a line
                return
            self.pen.polygon(corners, colour, 0.08)
            self.pen.lines([np.vstack([corners, corners[:1]])], colour, 1.3, 0.6)
            return
        is_near = solid.equations[:, 2] > 0  # the normal points to the viewer
        for face in solid.simplices[is_near]:
            self.pen.polygon(points[face, :2], colour, 0.06)
        for front, alpha in ((False, 0.28), (True, 0.7)):
            edges = [points[list(edge), :2] for edge, is_front in _edges(solid, is_near) if is_front == front]
            if edges:
                self.pen.lines(edges, colour, 1.3 if front else 0.9, alpha)

    def _planes(self, planes: dict[str, Any]) -> None:
        """{x: <row_k, x> = level_k for all k}: lines in the plane; planes or lines in space."""
        rows = np.zeros((len(planes["rows"]), 3))
        rows[:, : self.d] = planes["rows"]
        whole = np.linalg.svd(rows)[2]
        along = whole[len(rows) :][: self.d - len(rows)] if self.d == 3 else np.array([[-rows[0, 1], rows[0, 0], 0.0]])
        reach = self.view.points(self.frame.tokens) @ along.T
        room = 0.08 * np.ptp(reach, axis=0)
        low, high = reach.min(axis=0) - room, reach.max(axis=0) + room
        ends = [(0,), (1,)] if len(along) == 1 else [(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]
        for level in planes["levels"]:
            foot = np.linalg.pinv(rows) @ np.atleast_1d(level)
            corners = [foot + sum(np.where(end, high, low)[j] * along[j] for j in range(len(along))) for end in ends]
            seen = self.view.seen(np.array(corners))[:, :2]
            if len(along) > 1:
                self.pen.polygon(seen, self.pen.theme["bad"], 0.1)
            self.pen.lines([seen], self.pen.theme["bad"], 1.8 if len(along) == 1 else 1.2, 0.75)

    def _trails(self) -> None:
        """Earlier positions, fading. On a circle they are drawn inside, so that merging tokens can be followed."""
        length = len(self.frame.trail)
        if length < 2 or self.n > MAX_SEGMENTS:
            return
        stride = int(np.ceil(self.n * (length - 1) / MAX_SEGMENTS))
        kept = np.unique(np.r_[np.arange(length - 1, -1, -stride), 0])
        points = np.stack([self.view.points(self.frame.trail[k]) for k in kept])
        if self.scene.is_sphere and self.d == 2:
            points[..., :2] *= (1 - TRAIL_DEPTH * (length - 1 - kept) / 60)[:, None, None]
        seen = self.view.seen(points)[..., :2]
        strength = min(1.0, 8 / np.sqrt(self.n)) * (1.7 if self.view.is_dark else 1.0)
        colours = self.pen.colours(self.clusters)
        bounds = np.linspace(0, len(kept) - 1, FADES + 1).round().astype(int)
        for start, end in itertools.pairwise(bounds):
            if end > start:
                alpha = min(strength * (0.06 + 0.34 * (end / (len(kept) - 1)) ** 2), 1.0)
                self.pen.lines(list(seen[start : end + 1].transpose(1, 0, 2)), colours, 1.1, alpha)

    def _attention(self) -> None:
        """Lines between words, as in page/attention_lines.js."""
        weights = self.frame.attention
        if weights is None or len(weights) != self.n:
            return
        pairs = np.argwhere((weights >= max(0.04, 1.5 / self.n)) & ~np.eye(self.n, dtype=bool))
        if not len(pairs):
            return
        strength = weights[tuple(pairs.T)]
        paths = list(self.seen[pairs][..., :2])
        self.pen.lines(paths, self.pen.theme["accent"], 0.5 + 4 * strength, np.minimum(0.1 + 0.7 * strength, 0.8))

    def _dots(self) -> None:
        finite = np.asarray(np.isfinite(self.seen).all(axis=1))
        near = np.ones(self.n) if self.is_flat else np.clip((self.seen[:, 2] + 1) / 2, 0, 1)
        order = np.arange(self.n) if self.is_flat else np.argsort(self.seen[:, 2], kind="stable")
        colours = self.pen.shaded(self.pen.colours(self.clusters), near)
        radii = self.radius * (1.0 if self.is_flat else 0.6 + 0.45 * near)
        first, last = self.scene.parts[0] if len(self.scene.parts) > 1 else self.n, self.n - self.scene.targets
        rim = self.pen.theme["paper"] if self.n <= 400 else None
        for is_second in (False, True):
            chosen = order[finite[order] & (order < last) & ((order >= first) == is_second)]
            if len(chosen):
                sizes = np.broadcast_to(radii, (self.n,))[chosen]
                self.pen.discs(self.seen[chosen], sizes, colours[chosen], rim=rim, is_square=is_second)
        if self.scene.targets:
            far = (self.seen[last:, 2] < 0) & (not self.is_flat)
            shaded = self.pen.shaded(self.pen.colours(self.clusters[last:]), np.where(far, 2 / 7, 1.0))
            self.pen.rings(self.seen[last:], self.radius + 3.5, shaded, 2)

    def _marked(self) -> list[np.ndarray]:
        """Tokens of each cluster that is large enough for a mark, the largest first."""
        least = 2 if self.n <= 40 else 3
        groups = [np.flatnonzero(self.clusters == colour) for colour in np.unique(self.clusters) if colour]
        return sorted((group for group in groups if len(group) >= least), key=len, reverse=True)

    def _clusters(self) -> None:
        """A disc whose area grows with the cluster, and its number of tokens or its words."""
        most = 0.06 * min(self.view.width, self.view.height)
        groups = self._marked()
        centres = [self.seen[group].mean(axis=0) for group in groups]
        sizes = [min(self.radius * np.sqrt(1.5 + 0.7 * len(group)), most) for group in groups]
        for group, centre, size in zip(groups, centres, sizes, strict=True):
            if self.d > 1:
                is_far = centre[2] < 0 and not self.is_flat
                colour = self.pen.colours(self.clusters[group[:1]])
                self.pen.discs(centre[None], size, colour, alpha=0.1 if is_far else 0.2)
        if len(groups) <= MAX_COUNTED:
            for group, centre, size in zip(groups, centres, sizes, strict=True):
                self._count(self._text_of(group), centre, size)

    def _text_of(self, group: np.ndarray) -> str:
        if not self.scene.labels:
            return str(len(group))
        words, counts = [], dict.fromkeys((self.scene.labels[i] for i in group), 0)
        for i in group:
            counts[self.scene.labels[i]] += 1
        words = [word if count == 1 else f"{word} ×{count}" for word, count in counts.items()]
        return "  ".join(words[:MAX_WORDS]) + (f"  +{len(words) - MAX_WORDS}" if len(words) > MAX_WORDS else "")

    def _count(self, text: str, centre: np.ndarray, size: float) -> None:
        x, y, depth = centre
        if self.d == 1:  # above the column of dots
            y, size = self.view.origin[1], 0.75 * self.view.scale + self.radius
        away = np.array([x, y]) - self.view.origin
        length = float(np.hypot(*away))
        u, v = (0.0, -1.0) if length < 1 or self.d == 1 else away / length
        aside = 3.4 * (len(text) - 1) * u
        self._write(text, x + (size + 11) * u + aside, y + (size + 11) * v + 4, self._ink(depth), "bold")

    def _labels(self) -> None:
        """Words of tokens in no cluster, nearest first, above or below the dot if there is room."""
        if not self.scene.labels or self.n > MAX_NAMED:
            return
        marked = {int(i) for group in self._marked() for i in group} if self.clusters.any() else set()
        away = self.radius + 5
        for i in np.argsort(-self.seen[:, 2], kind="stable"):
            word = self.scene.labels[i]
            if int(i) not in marked and word:
                x, y, depth = self.seen[i]
                ink = self._ink(depth)
                _ = self._write(word, x, y - away, ink) or self._write(word, x, y + away + 9, ink)

    def _ink(self, depth: float) -> str:
        return self.pen.theme["grey" if depth < BEHIND and not self.is_flat else "ink"]

    def _write(self, text: str, x: float, y: float, ink: str, weight: str = "normal") -> bool:
        """Write a text unless another one is in its place; returns whether it was written."""
        half = 3.6 * len(text) + 2
        if any(abs(a - x) < half + other and abs(b - y) < 13 for a, b, other in self._taken):
            return False
        self._taken.append((x, y, half))
        self.pen.text(text, x, y, ink, 12, outlined=True, weight=weight)
        return True

    def _texts(self) -> None:
        self.pen.text(self.frame.clock, 14, 29, self.pen.theme["ink"], 18, align="left", outlined=True)
        for k, note in enumerate(self.frame.notes):
            self.pen.text(note, 14, 52 + 18 * k, self.pen.theme["grey"], 13, align="left", outlined=True)


def _edges(solid: ConvexHull, is_near: np.ndarray) -> list[tuple[tuple[int, int], bool]]:
    """Edges between faces of different directions, with whether one of the two faces is near."""
    faces: dict[tuple[int, int], list[int]] = {}
    for number, (a, b, c) in enumerate(solid.simplices):
        for edge in ((a, b), (b, c), (a, c)):
            faces.setdefault((min(edge), max(edge)), []).append(number)
    normals = solid.equations[:, :3]
    return [
        (edge, bool(is_near[pair].any())) for edge, pair in faces.items()
        if len(pair) == 2 and normals[pair[0]] @ normals[pair[1]] < 0.999
    ]  # fmt: skip
