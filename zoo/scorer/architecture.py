"""Architecture of the scorer: a CLIP of 2.7 M parameters and its image processor."""

from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

from zoo.architecture import IMAGE_SIDE, text_encoder_2

#: Width of the vector that both towers end in.
EMBEDDING = 256
#: Side of the squares that the image tower cuts a picture into, pixels.
PATCH = 8
#: Pictures enter at -1..1.
_MIDDLE = [0.5, 0.5, 0.5]

_VISION = {"hidden_size": 144, "num_hidden_layers": 5, "num_attention_heads": 4}


def clip(vocabulary: int) -> CLIPModel:
    """Build the scorer, 2.7 M parameters; its text tower is of the size of text_encoder_2."""
    text = text_encoder_2(vocabulary).config.to_dict()
    vision = _VISION | {
        "intermediate_size": 4 * _VISION["hidden_size"],
        "image_size": IMAGE_SIDE,
        "patch_size": PATCH,
    }
    return CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=EMBEDDING))


def image_processor() -> CLIPImageProcessor:
    """Build what turns pictures into the input of the image tower."""
    size = {"height": IMAGE_SIDE, "width": IMAGE_SIDE}
    return CLIPImageProcessor(
        size=size, do_center_crop=False, image_mean=_MIDDLE, image_std=_MIDDLE
    )
