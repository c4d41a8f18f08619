/** Images by the name under which the page itself was reached: the service may know another of its own. */
import { BASE, type Job } from "./client";

/** Where an image of a job is, for this browser. Its signature does not cover the host. */
export function localUrl(url: string, job: Job): string {
  const theirs = job.urls.self.slice(0, -`/v1/jobs/${job.id}`.length);
  return url.startsWith(`${theirs}/files/`) ? BASE + url.slice(theirs.length) : url;
}
