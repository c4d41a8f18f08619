/** One image, as large as the window allows, with what made it and what can be done with it. */
import { ChevronLeft, ChevronRight } from "lucide";
import { useEffect } from "preact/hooks";
import { IconButton } from "../../components/button";
import { Dialog } from "../../components/dialog";
import { beside, found, opened } from "../state/shown";
import { RENEW_MS, renew, reread } from "../state/jobs";
import { Actions } from "./actions";
import { localUrl } from "../../api/local_url";
import { factsOf } from "./said";

export function Lightbox() {
  const here = found(opened.value);
  const id = here?.job.id;
  useEffect(() => {
    if (!id) return;
    void renew(id);
    const timer = setInterval(() => void renew(id), RENEW_MS);
    return () => clearInterval(timer);
  }, [id]);
  if (!here) return null;
  const { job, image } = here;
  const [before, after] = [beside(-1), beside(1)];
  const go = (to: typeof before) => to && (opened.value = to);
  const keys = (event: KeyboardEvent) => {
    if (event.key === "ArrowLeft") go(before);
    if (event.key === "ArrowRight") go(after);
  };
  return (
    <Dialog title="Image" size="wide" onClose={() => (opened.value = null)} onKeyDown={keys} tools={
      <>
        <IconButton icon={ChevronLeft} label="Newer image" disabled={!before} onClick={() => go(before)} />
        <IconButton icon={ChevronRight} label="Older image" disabled={!after} onClick={() => go(after)} />
      </>
    }>
      <div class="lightbox">
        <figure>
          <img key={image.url} src={localUrl(image.url, job)} alt={job.prompt} width={image.width} height={image.height} onError={() => void reread(job.id)} />
        </figure>
        <div class="lightbox-side">
          <p class="lightbox-prompt">{job.prompt}</p>
          <dl class="facts">
            {factsOf(job, image).map(([name, value]) => <div key={name}><dt>{name}</dt><dd class="num">{value}</dd></div>)}
          </dl>
          <Actions job={job} image={image} of={opened.value!} />
        </div>
      </div>
    </Dialog>
  );
}
