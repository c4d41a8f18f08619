/** One job: its pictures, or how far it has come. */
import { CircleSlash, CircleX, Clock, X } from "lucide";
import { IconButton } from "../../components/button";
import { Icon } from "../../components/icon";
import { cancel, hasEnded, jobOf, reread, type Shown } from "../state/jobs";
import { localUrl } from "./local_url";
import { stateOf } from "./said";

export function Card({ id }: { id: string }) {
  const shown = jobOf(id).value;
  const { job, progress } = shown;
  return (
    <li class={`job ${job.status}`} aria-label={job.prompt || "An image"}>
      <div class="job-picture" data-count={Math.min(job.n, 4)}>
        <Pictures {...shown} />
        {!hasEnded(job) && <IconButton icon={X} look="plain" label="Cancel" onClick={() => void cancel(id)} />}
      </div>
      {!hasEnded(job) && <progress max={progress?.steps ?? 1} value={progress?.step ?? 0} aria-label="Steps done" />}
      <p class="job-prompt">{job.prompt}</p>
      <p class="job-state quiet small num" role="status">{stateOf(job, progress)}</p>
    </li>
  );
}

const INSTEAD = { failed: CircleX, canceled: CircleSlash, expired: Clock };

function Pictures({ job, progress }: Shown) {
  if (job.images.length) {
    return job.images.slice(0, 4).map((image) => (
      <img key={image.seed} src={localUrl(image.url, job)} alt={job.prompt} width={image.width} height={image.height} loading="lazy" decoding="async" onError={() => void reread(job.id)} />
    ));
  }
  if (hasEnded(job)) return <Icon of={INSTEAD[job.status as keyof typeof INSTEAD]} />;
  const previews = [...(progress?.previews ?? [])].slice(0, 4);
  return previews.length ? previews.map(([at, url]) => <img key={at} class="preview" src={url} alt="" />) : <span class="waiting" />;
}
