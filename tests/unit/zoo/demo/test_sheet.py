import pytest
from PIL import Image

from zoo.demo.sheet import BAD, GOOD, CaptionedImage, Section, save_sheet

RED = Image.new("RGB", (64, 64), "red")


def a_picture(is_good=True):
    return CaptionedImage(image=RED, caption="a red square " * 20, is_good=is_good)


def colours(path):
    with Image.open(path) as sheet:
        return {colour for _, colour in sheet.convert("RGB").getcolors(10**6)}


def rgb(text):
    return tuple(bytes.fromhex(text.removeprefix("#")))


def a_section(*pictures, columns=None):
    return Section(heading="some", images=pictures, columns=columns)


def test_every_picture_is_on_the_sheet_with_its_verdict(tmp_path):
    path = tmp_path / "sheet.png"
    save_sheet(path, [a_section(a_picture(), a_picture(is_good=False)), a_section(a_picture())])
    assert {(255, 0, 0), rgb(GOOD), rgb(BAD)} <= colours(path)


def test_a_picture_of_another_shape_is_not_stretched(tmp_path):
    wide = CaptionedImage(image=Image.new("RGB", (128, 64), "blue"), caption="", is_good=True)
    section = a_section(wide, columns=4)
    save_sheet(tmp_path / "sheet.png", [section])
    with Image.open(tmp_path / "sheet.png") as sheet:
        counts = {colour: n for n, colour in sheet.convert("RGB").getcolors(10**6)}
    assert counts[(0, 0, 255)] == section.zoom * round(section.zoom / 2)


@pytest.mark.parametrize("count", [5, 11, 16, 26])
def test_few_places_of_a_sheet_stay_empty(count):
    rows = a_section(*[a_picture()] * count).rows
    assert sum(map(len, rows)) == count
    assert len(rows[0]) - len(rows[-1]) <= 2


def test_short_captions_leave_no_room_for_long_ones(tmp_path):
    short = CaptionedImage(image=RED, caption="red", is_good=True)
    save_sheet(tmp_path / "sheet.png", [a_section(*[short] * 24)])
    with Image.open(tmp_path / "sheet.png") as sheet:
        counts = {colour: n for n, colour in sheet.convert("RGB").getcolors(10**6)}
        assert counts[(255, 0, 0)] > 0.6 * sheet.width * sheet.height
