/** What can be done with an image that was made. */
import { Columns2, Copy, Download, Dices, Repeat2, SquarePen, Trash2 } from "lucide";
import { useState } from "preact/hooks";
import type { Job } from "../../api/client";
import { sentence } from "../../api/problem";
import { Button } from "../../components/button";
import { copy } from "../../components/copy";
import { Confirm } from "../../components/dialog";
import { Icon } from "../../components/icon";
import { say } from "../../components/toast";
import { remove } from "../state/jobs";
import { remix, startFrom } from "../state/remix";
import { comparing, opened, type Ref } from "../state/shown";
import { localUrl } from "../../api/local_url";
import { download } from "./download";
import { settingsOf } from "./said";

type Image = Job["images"][number];

/** Do something that may fail; then look at the form again. */
async function intoForm(what: Promise<void>, done: string): Promise<void> {
  try {
    await what;
    opened.value = null;
    say(done);
    setTimeout(() => document.querySelector<HTMLElement>("[name=prompt]")?.focus());
  } catch (error) {
    say(sentence(error));
  }
}

export function Actions({ job, image, of }: { job: Job; image: Image; of: Ref }) {
  const compare = () => {
    comparing.value = of;
    opened.value = null;
  };
  return (
    <div class="actions">
      <a class="button primary" href={localUrl(image.url, job)} onClick={download} download={`${job.id}-${image.seed}.${image.content_type.split("/")[1]}`}>
        <Icon of={Download} />Download
      </a>
      <Button look="plain" icon={Dices} onClick={() => void intoForm(remix(job, null), "Settings are in the form, with a new seed")}>Remix</Button>
      <Button look="plain" icon={Repeat2} onClick={() => void intoForm(remix(job, image.seed), "Seed and settings are in the form")}>Same seed</Button>
      <Button look="plain" icon={SquarePen} onClick={() => void intoForm(startFrom(job, image.url), "The image is in the form")}>Edit</Button>
      <Button look="plain" icon={Columns2} onClick={compare}>Compare</Button>
      <Button look="plain" icon={Copy} onClick={() => void copy(settingsOf(job, image), "Seed and settings")}>Copy settings</Button>
      <Delete key={job.id} job={job} />
    </div>
  );
}

/** Delete a job for good, after a question. */
export function Delete({ job }: { job: Job }) {
  const [isAsking, setAsking] = useState(false);
  const go = () => {
    setAsking(false);
    remove(job.id).then(
      () => ((opened.value = null), say("Deleted")),
      (error) => say(sentence(error)),
    );
  };
  return (
    <>
      <Button look="danger" icon={Trash2} onClick={() => setAsking(true)}>Delete</Button>
      {isAsking && (
        <Confirm title="Delete for good?" verb="Delete" onYes={go} onNo={() => setAsking(false)}>
          <p>The job goes with {job.n > 1 ? `all its ${job.n} images` : "its image"}, here and wherever its links were sent.</p>
        </Confirm>
      )}
    </>
  );
}
