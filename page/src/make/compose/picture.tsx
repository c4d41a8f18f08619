/** The picture that the image is made from: a part of it made anew, or all of it started from. */
import { Brush, X } from "lucide";
import { useState } from "preact/hooks";
import { Button, IconButton } from "../../components/button";
import { PictureDrop } from "../../components/picture_drop";
import { RangeField } from "../../components/range_field";
import { Segments } from "../../components/segments";
import { useBlobUrl } from "../../components/use_blob_url";
import { MaskEditor } from "../mask/editor";
import { change, draft, faults } from "../state/draft";
import { use } from "../state/pictures";

/** Share of the steps that is run where nobody says: an edit starts from noise under its mask. */
const STRENGTH = { edit: 1, start: 0.8 };

export function PictureInput() {
  const { picture, use: purpose, strength } = draft.value;
  if (!picture) {
    return <PictureDrop label="Start from a picture" hint="Choose, drop or paste one, or take one of your images." onPick={(file) => use(file, file.name)} />;
  }
  return (
    <section class="picture" aria-label="Picture to start from">
      <Segments label="What it is for" value={purpose} options={[["edit", "Edit a part"], ["start", "Start from it"]]} onChange={(chosen) => change({ use: chosen, strength: null })} />
      <Chosen />
      <RangeField name="strength" label="Strength" min={0.05} max={1} step={0.05} value={strength ?? STRENGTH[purpose]} fault={faults.value.get("strength")} onChange={(value) => change({ strength: value })} />
    </section>
  );
}

function Chosen() {
  const { picture, mask, use: purpose } = draft.value;
  const [isPainting, setPainting] = useState(false);
  const [url, maskUrl] = [useBlobUrl(picture?.blob ?? null), useBlobUrl(mask)];
  const fault = ["template", "image", "mask"].map((name) => faults.value.get(name)).find(Boolean);
  if (!picture) return null;
  return (
    <div class="chosen">
      <div class="chosen-picture">
        {url && <img src={url} alt={picture.name} />}
        {maskUrl && purpose === "edit" && <span class="chosen-mask" style={{ maskImage: `url("${maskUrl}")` }} />}
      </div>
      <div class="chosen-side">
        <p class="quiet small num">{picture.width} × {picture.height}</p>
        {purpose === "edit" && (
          <Button look="plain" icon={Brush} aria-invalid={faults.value.has("mask") ? "true" : undefined} aria-describedby={fault ? "picture-fault" : undefined} onClick={() => setPainting(true)}>
            {mask ? "Change the mask" : "Paint a mask"}
          </Button>
        )}
        {fault && <p id="picture-fault" class="fault">{fault}</p>}
      </div>
      <IconButton icon={X} label="Without the picture" onClick={() => change({ picture: null, mask: null, strength: null })} />
      {isPainting && <MaskEditor picture={picture} mask={mask} onClose={() => setPainting(false)} onDone={(painted) => (change({ mask: painted }), setPainting(false))} />}
    </div>
  );
}
