import pytest
import torch

from zoo import architecture
from zoo.labels import IGNORED, SLOTS, label
from zoo.reading import ReadingRecipe, ReadingTraining, noun_ids, tokenize
from zoo.scenes import LEVELS, training_scene
from zoo.scenes.words import Shape
from zoo.text import SdReader, SdxlReader
from zoo.tokenizer import build, corpus, learn_merges

RECIPE = ReadingRecipe(steps=2, decay_steps=1, batch=4)


@pytest.fixture(scope="module")
def tokenizer():
    return build(learn_merges(corpus(0, per_level=40)), "<|endoftext|>")


@pytest.mark.parametrize("level", LEVELS)
def test_labels_say_what_the_scene_holds(tokenizer, level):
    scenes = [training_scene(level, 3, index) for index in range(50)]
    ids = tokenize(tokenizer, scenes)
    labels = label(scenes, ids, noun_ids(tokenizer))
    shapes = [None, *Shape]
    named_by = {word: shape for shape in Shape for word in (str(shape), shape.plural)}
    for row, scene in enumerate(scenes):
        slots = labels.slots["shape"][row].tolist()
        named = [figure.noun.shape for figure in scene.figures]
        assert [shapes[at] for at in slots] == named + [None] * (SLOTS - len(named))
        asked = labels.nouns["shape"][row]
        words = tokenizer.convert_ids_to_tokens(ids[row][asked != IGNORED])
        classes = asked[asked != IGNORED].tolist()
        assert [named_by[word.removesuffix("</w>")] for word in words] == [
            shapes[at] for at in classes
        ]
    assert labels.pooled["count"].tolist() == [len(scene.figures) for scene in scenes]


def _reader(layout, vocabulary):
    torch.manual_seed(0)
    first = architecture.text_encoder(vocabulary)
    if layout == "sd":
        return SdReader(first)
    return SdxlReader(first, architecture.text_encoder_2(vocabulary))


@pytest.mark.parametrize("layout", ["sd", "sdxl"])
def test_a_step_of_reading_goes_on_from_a_checkpoint(tokenizer, layout, tmp_path):
    whole = ReadingTraining(_reader(layout, len(tokenizer)), tokenizer, RECIPE)
    losses = [whole.advance(), whole.advance()]
    first = ReadingTraining(_reader(layout, len(tokenizer)), tokenizer, RECIPE)
    head = first.advance()
    first.save(tmp_path / "reading.pt")
    second = ReadingTraining(_reader(layout, len(tokenizer)), tokenizer, RECIPE)
    second.load(tmp_path / "reading.pt")
    assert [head, second.advance()] == losses


@pytest.mark.parametrize("layout", ["sd", "sdxl"])
def test_the_empty_caption_has_the_shape_of_any(tokenizer, layout):
    reader = _reader(layout, len(tokenizer))
    context, pooled = reader(tokenize(tokenizer, [training_scene(1, 0, 0)]))
    empty, whole = reader.empty()
    assert empty.shape == context.shape[1:]
    assert (pooled is None) == (whole is None)


def test_noise_rises_until_what_is_read_must_stand_out():
    recipe = ReadingRecipe(noise=1.0, quiet_steps=4)
    assert [recipe.noise_at(step) for step in (0, 1, 4, 400)] == [0.0, 0.25, 1.0, 1.0]
