"""What is decoded, held back and handed on, token by token, and how the window is cut."""

from __future__ import annotations

from figures.svg import Drawing

DESC = """Six tokens stand in a row: "5", a space, the bytes E2, 82 and AC, which together are the
euro sign, and "!". Below each is the text of all tokens so far: "5", "5 ", "5 " and a replacement
mark, the same again, then "5 €" and "5 €!". The mark is held back, so the pieces that are handed on
are "5", a space, nothing, nothing, the euro sign and "!". Below, a row of 17 kept tokens: when
there are more than 16, only the last 8 are kept, if their text ends as the whole text does; what
has been sent of it is counted anew, so that the next token is decoded with at most 16 others."""

LEFT, WIDTH, GAP = 150, 82, 8
TOKENS = ('"5"', '" "', "E2", "82", "AC", '"!"')
TEXTS = ("5", "5 ", "5 \ufffd", "5 \ufffd", "5 €", "5 €!")
PIECES = ("5", " ", "", "", "€", "!")
KEPT, CUT = 17, 9


def draw() -> Drawing:
    """The stream above, the window below."""
    d = Drawing("Text in pieces", DESC, 720, 350)
    d.text(24, 48, "token", "b")
    d.text(24, 110, "decoded so far", "b")
    d.text(24, 172, "handed on", "b")
    for i, (token, text, piece) in enumerate(zip(TOKENS, TEXTS, PIECES, strict=True)):
        x, is_held = LEFT + i * (WIDTH + GAP), text.endswith("\ufffd")
        d.box((x, 26), (WIDTH, 36), [(token, "m")], "blue", 4)
        d.box((x, 88), (WIDTH, 36), [(f'"{text}"', "m")], "red" if is_held else "plain", 4)
        label = f'"{piece}"' if piece else "nothing"
        d.box((x, 150), (WIDTH, 36), [(label, "m")], "green" if piece else "plain", 4)
        d.arrow((x + WIDTH / 2, 62), (x + WIDTH / 2, 87))
        d.arrow((x + WIDTH / 2, 124), (x + WIDTH / 2, 149))
    d.text(LEFT, 206, "A mark at the end may yet become a character: it is held back.", "s")
    d.line((24, 222), (696, 222), dashed=True)
    d.text(24, 254, "window", "b")
    tones = ["plain"] * CUT + ["blue"] * (KEPT - CUT)
    d.cells((LEFT, 236), [f"t{i}" for i in range(KEPT)], tones, (31, 28), "s")
    d.cells((LEFT + CUT * 31, 292), [f"t{i}" for i in range(CUT, KEPT)], "blue", (31, 28), "s")
    d.arrow((LEFT + 13 * 31, 264), (LEFT + 13 * 31, 291))
    d.text(LEFT, 310, "more than 16 are kept:", "s")
    d.text(LEFT, 328, "the last 8 stay, if their text", "s")
    d.text(LEFT, 344, "ends as the whole text does", "s")
    return d
