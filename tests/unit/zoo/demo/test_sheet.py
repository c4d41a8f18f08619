from PIL import Image

from zoo.demo.sheet import BAD, GOOD, CaptionedImage, save_sheet

RED = Image.new("RGB", (64, 64), "red")


def a_picture(is_good=True):
    return CaptionedImage(image=RED, caption="a red square " * 20, is_good=is_good)


def colours(path):
    with Image.open(path) as sheet:
        return {colour for _, colour in sheet.convert("RGB").getcolors(10**6)}


def rgb(text):
    return tuple(bytes.fromhex(text.removeprefix("#")))


def test_every_picture_is_on_the_sheet_with_its_verdict(tmp_path):
    path = tmp_path / "sheet.png"
    save_sheet(path, [("one", [a_picture(), a_picture(is_good=False)]), ("two", [a_picture()])])
    assert {(255, 0, 0), rgb(GOOD), rgb(BAD)} <= colours(path)


def test_a_picture_of_another_shape_is_not_stretched(tmp_path):
    wide = CaptionedImage(image=Image.new("RGB", (128, 64), "blue"), caption="", is_good=True)
    save_sheet(tmp_path / "sheet.png", [("one", [wide])])
    with Image.open(tmp_path / "sheet.png") as sheet:
        counts = {colour: n for n, colour in sheet.convert("RGB").getcolors(10**6)}
    assert counts[(0, 0, 255)] == 160 * 80
