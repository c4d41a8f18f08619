/** Two images over each other, parted by a line that is moved. */
import { X } from "lucide";
import { useState } from "preact/hooks";
import { Button } from "../../components/button";
import { Dialog } from "../../components/dialog";
import { compared, comparing, found, type Ref } from "../state/shown";
import { localUrl } from "../../api/local_url";
import { factsOf } from "./said";

/** Say that another is to be chosen. */
export function CompareBar() {
  const first = found(comparing.value);
  if (!first) return null;
  return (
    <div class="compare-bar" role="status">
      <img src={localUrl(first.image.url, first.job)} alt="" />
      <span>Choose the image to compare it with</span>
      <Button look="plain" icon={X} onClick={() => (comparing.value = null)}>Leave it</Button>
    </div>
  );
}

export function Compare() {
  const [share, setShare] = useState(50);
  const [left, right] = [found(compared.value?.[0] ?? null), found(compared.value?.[1] ?? null)];
  if (!left || !right) return null;
  return (
    <Dialog title="Compare" size="wide" onClose={() => (compared.value = null)}>
      <div class="compare">
        <div class="compare-pictures" style={{ "--share": `${share}%`, aspectRatio: `${left.image.width} / ${left.image.height}` }}>
          <img src={localUrl(right.image.url, right.job)} alt={`Second: ${right.job.prompt}`} />
          <img class="over" src={localUrl(left.image.url, left.job)} alt={`First: ${left.job.prompt}`} />
          <span class="compare-line" />
          <input type="range" min={0} max={100} value={share} aria-label="How much of the first is shown" onInput={(event) => setShare(event.currentTarget.valueAsNumber)} />
        </div>
        <div class="compare-words"><Words of={compared.value![0]} /><Words of={compared.value![1]} /></div>
      </div>
    </Dialog>
  );
}

function Words({ of }: { of: Ref }) {
  const { job, image } = found(of)!;
  return (
    <div>
      <p class="lightbox-prompt">{job.prompt}</p>
      <dl class="facts">{factsOf(job, image).map(([name, value]) => <div key={name}><dt>{name}</dt><dd class="num">{value}</dd></div>)}</dl>
    </div>
  );
}
