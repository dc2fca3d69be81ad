# SPDX-License-Identifier: BSD-2-Clause
"""One SVG picture of a soak: panels below each other over time, each curve named at its end."""
from html import escape

COLOURS = ('#1f5fbf', '#c46a1a', '#2f8f4e', '#8a3fa0', '#b8860b', '#555555')
WIDTH, LEFT, RIGHT, TOP, PANEL, GAP = 900, 64, 160, 100, 100, 52


def text_of(value):
    for limit, by, unit in ((1e9, 1e9, 'G'), (1e6, 1e6, 'M'), (1e4, 1e3, 'k')):
        if abs(value) >= limit:
            return f'{value / by:.3g}{unit}'
    return f'{value:.0f}' if value == int(value) or value >= 100 else f'{value:.3g}'


def above(value):
    """The next round number: the upper end of an axis."""
    step = 1
    while step * 10 <= value:
        step *= 10
    return next(step * n for n in (1, 2, 3, 4, 6, 8, 10) if step * n >= value)


def apart(heights, least):
    """The same heights, moved until each is so far from the next."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    places = [heights[i] for i in order]
    for _ in range(100):
        for i in range(1, len(places)):
            short = least - (places[i] - places[i - 1])
            if short > 0:
                places[i - 1] -= short / 2
                places[i] += short / 2
    return [places[order.index(i)] for i in range(len(heights))]


def line(x1, y1, x2, y2, colour, more=''):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" {more}/>'


def text(x, y, words, more=''):
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(words)}</text>'


class Panel:
    def __init__(self, top, until):
        self.top, self.until = top, until
        self.parts = []

    def x(self, seconds):
        return LEFT + seconds / self.until * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        return self.top + PANEL - (value - self.low) / (self.high - self.low) * PANEL

    def draw(self, title, curves, dots):
        """curves, dots: {name: [(seconds, value)]}. Dots are what was seen at rest."""
        values = [v for points in (*curves.values(), *dots.values()) for _, v in points] or [0]
        self.low, self.high = 0, above(max(*values, 1))
        add = self.parts.append
        add(text(LEFT, self.top - 8, title, 'font-weight="bold"'))
        for value in (0, self.high / 2, self.high):
            add(line(LEFT, self.y(value), WIDTH - RIGHT, self.y(value), '#dddddd'))
            add(text(LEFT - 6, self.y(value) + 4, text_of(value), 'text-anchor="end" fill="#666"'))
        names = list(dict.fromkeys((*curves, *dots)))
        ends = []
        for name in names:
            colour = COLOURS[names.index(name) % len(COLOURS)]
            points = ' '.join(f'{self.x(t):.1f},{self.y(v):.1f}' for t, v in curves.get(name, []))
            add(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.4"/>')
            for t, v in dots.get(name, []):
                add(f'<circle cx="{self.x(t):.1f}" cy="{self.y(v):.1f}" r="2.2" fill="{colour}"/>')
            last = (curves.get(name) or dots.get(name) or [(0, 0)])[-1]
            ends.append((name, self.y(last[1]), last[1], colour))
        heights = apart([end[1] for end in ends], 13)
        below = max(0, max(heights, default=0) - self.top - PANEL - 8)
        for (name, _, value, colour), height in zip(ends, heights):
            height -= below # so that the next panel has its place
            add(text(WIDTH - RIGHT + 8, height + 4, f'{name} {text_of(value)}', f'fill="{colour}"'))
        return '\n'.join(self.parts)


def draw(path, title, verdict, panels, until, marks):
    """panels: (title, curves, dots). marks: seconds at which a process was killed."""
    height = TOP + len(panels) * (PANEL + GAP) + 10
    good = not verdict
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
           text(LEFT, 26, title, 'font-size="16"'),
           text(LEFT, 48, 'all is well' if good else verdict[0][:100],
                f'font-size="14" fill="{"#2f8f4e" if good else "#c02020"}"'),
           text(LEFT, 66, 'Dots: all processes rest, so nothing of any session may be left.'
                + (f' Grey strokes below: {len(marks)} kills.' if marks else ''), 'fill="#666"')]
    for i, (name, curves, dots) in enumerate(panels):
        panel = Panel(TOP + i * (PANEL + GAP), max(until, 1e-9))
        out.append(panel.draw(name, curves, dots))
        for seconds in marks if len(marks) <= 400 else marks[::len(marks) // 400 + 1]:
            out.append(line(panel.x(seconds), panel.top + PANEL + 2, panel.x(seconds), panel.top + PANEL + 7, '#999999'))
        unit, name = (60, 'min') if until > 120 else (1, 's')
        step = above(max(until / unit / 5, 1))
        for part in range(int(until / unit / step) + 1):
            out.append(text(panel.x(part * step * unit), panel.top + PANEL + 20, f'{part * step} {name}',
                            'text-anchor="middle" fill="#666"'))
    out.append('</svg>\n')
    with open(path, 'w') as f:
        f.write('\n'.join(out))
