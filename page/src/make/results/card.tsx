/** One job: its pictures, or how far it has come. */
import { CircleSlash, CircleX, Clock, X } from "lucide";
import type { Job } from "../../api/client";
import { sentence } from "../../api/problem";
import { IconButton } from "../../components/button";
import { Icon } from "../../components/icon";
import { say } from "../../components/toast";
import { cancel, hasEnded, jobOf, reread, type Shown } from "../state/jobs";
import { comparing, pick } from "../state/shown";
import { Delete } from "./actions";
import { localUrl } from "../../api/local_url";
import { stateOf } from "./said";

export function Card({ id }: { id: string }) {
  const shown = jobOf(id).value;
  const { job, progress } = shown;
  const isOpen = !hasEnded(job);
  return (
    <li class={`job ${job.status}`} aria-label={job.prompt || "An image"}>
      <div class="job-picture" data-count={Math.min(job.images.length || progress?.previews.size || 1, 4)}>
        <Pictures {...shown} />
        {isOpen && <IconButton icon={X} look="plain" label="Cancel" onClick={() => cancel(id).catch((error) => say(sentence(error)))} />}
        {job.images.length > 4 && <span class="tag">{job.images.length} images</span>}
      </div>
      {isOpen && <progress max={progress?.steps ?? 1} value={progress?.step ?? 0} aria-label="Steps done" />}
      <p class="job-prompt">{job.prompt}</p>
      <p class="job-state quiet small num">{stateOf(job, progress)}</p>
      {!isOpen && !job.images.length && <Delete job={job} />}
    </li>
  );
}

const INSTEAD = { failed: CircleX, canceled: CircleSlash, expired: Clock };

function Pictures({ job, progress }: Shown) {
  if (job.images.length) return job.images.slice(0, 4).map((_, at) => <Thumbnail key={at} job={job} at={at} />);
  if (hasEnded(job)) return <Icon of={INSTEAD[job.status as keyof typeof INSTEAD] ?? CircleX} />;
  const previews = [...(progress?.previews ?? [])].slice(0, 4);
  return previews.length ? previews.map(([at, url]) => <img key={at} class="preview" src={url} alt="" />) : <span class="waiting" />;
}

function Thumbnail({ job, at }: { job: Job; at: number }) {
  const image = job.images[at]!;
  const verb = comparing.value ? "Compare with" : "Open";
  return (
    <button type="button" class="thumbnail" aria-label={`${verb} ${job.images.length > 1 ? `image ${at + 1} of ` : ""}${job.prompt || "the image"}`} onClick={() => pick({ id: job.id, at })}>
      <img src={localUrl(image.url, job)} alt="" width={image.width} height={image.height} loading="lazy" decoding="async" onError={() => void reread(job.id)} />
    </button>
  );
}
