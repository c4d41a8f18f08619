"""Name the family of each pipeline class that is served, and say of others what would help."""

from core.errors import ModelRefused

#: Pipeline classes of `model_index.json` -> family.
FAMILY_OF = {
    "StableDiffusionPipeline": "sd",
    "StableDiffusionXLPipeline": "sdxl",
    "StableDiffusion3Pipeline": "sd3",
    "FluxPipeline": "flux",
}

#: Pipelines of the same parts for other work -> the class to save them as.
_SAME_PARTS = {
    "LatentConsistencyModelPipeline": "StableDiffusionPipeline",
    "StableDiffusionImg2ImgPipeline": "StableDiffusionPipeline",
    "StableDiffusionInpaintPipeline": "StableDiffusionPipeline",
    "StableDiffusionXLInpaintPipeline": "StableDiffusionXLPipeline",
    "StableDiffusion3Img2ImgPipeline": "StableDiffusion3Pipeline",
    "StableDiffusion3InpaintPipeline": "StableDiffusion3Pipeline",
    "FluxImg2ImgPipeline": "FluxPipeline",
    "FluxInpaintPipeline": "FluxPipeline",
}

#: Pipelines that do other work than making a picture of a prompt.
_OTHER_WORK = {
    "StableDiffusionXLImg2ImgPipeline": "a refiner: it goes on from the latents of another model",
    "StableDiffusionUpscalePipeline": "an upscaler of pictures",
    "StableDiffusionLatentUpscalePipeline": "an upscaler of latents",
    "StableDiffusionInstructPix2PixPipeline": "an editor by instructions",
    "StableDiffusionXLInstructPix2PixPipeline": "an editor by instructions",
    "StableDiffusionDepth2ImgPipeline": "a model that needs a depth map of each picture",
    "FluxFillPipeline": "a model that only fills masks",
    "FluxControlPipeline": "a model that needs a control picture with each prompt",
    "FluxKontextPipeline": "an editor by instructions",
}

#: What input channels beside those of the latents are for.
_CHANNELS = {
    9: "an inpainting model: it reads mask and masked picture beside the latents",
    8: "an editor by instructions: it reads the picture beside the latents",
    5: "a model that reads a depth map beside the latents",
    7: "an upscaler: it reads the small picture beside the latents",
}

SERVED = ", ".join(FAMILY_OF)


def family_of(class_name: str) -> str:
    """Name the family of a pipeline class.

    Raises:
        ModelRefused: none is served by that name; it says what would help.
    """
    if class_name in FAMILY_OF:
        return FAMILY_OF[class_name]
    raise ModelRefused(f"model_index.json: {_why(class_name)}")


def _why(class_name: str) -> str:
    if plain := _SAME_PARTS.get(class_name):
        return (
            f"a {class_name}; its parts may be those of a {plain}: save them as one by "
            f"`diffusers.{plain}.from_pretrained(FOLDER).save_pretrained(NEW)` and add NEW"
        )
    if work := _OTHER_WORK.get(class_name):
        return (
            f"a {class_name}, {work}, which is not served; add the model that makes pictures of "
            f"prompts which it goes with ({SERVED})"
        )
    return f"a {class_name}, which is not served; served are {SERVED}"


def check_channels(part: str, given: int, latent: int) -> None:
    """Refuse a UNet or transformer that reads more than latents. Both as channels of latents.

    Raises:
        ModelRefused: it does; it says what for, and what would help.
    """
    if given == latent:
        return
    what = _CHANNELS.get(given, "its pictures depend on more than a prompt")
    raise ModelRefused(
        f"{part} has {given} input channels where its latents have {latent}: {what}, which is not "
        "served; masked edits (`task: edit`) are made by its plain sibling, so add that"
    )
