/** What waits, queue by queue; those where nothing does are only counted. */
import type { Schemas } from "../api/client";
import { count } from "../format/number";
import { seconds } from "../format/time";

export function Queues({ queues }: { queues: readonly Schemas["QueueView"][] }) {
  const waiting = queues.filter((queue) => queue.waiting).sort((a, b) => b.oldest_s - a.oldest_s);
  const empty = queues.length - waiting.length;
  const most = Math.max(1, ...waiting.map((queue) => queue.waiting));
  return (
    <section aria-labelledby="queues">
      <h2 id="queues">Queues</h2>
      <div class="card queues">
        {waiting.length > 0 && (
          <table>
            <thead><tr><th scope="col">Queue</th><th scope="col" class="num">Jobs</th><th scope="col" class="num">The first waits</th></tr></thead>
            <tbody>
              {waiting.map(({ queue, waiting, oldest_s }) => (
                <tr key={queue}>
                  <th scope="row">{queue}<span class="depth" style={{ width: `${(waiting / most) * 100}%` }} /></th>
                  <td class="num">{count(waiting)}</td>
                  <td class="num">{seconds(oldest_s)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
        <p class="quiet small">{waiting.length ? `Nothing waits on ${empty} more.` : `Nothing waits on any of ${empty} queues.`}</p>
      </div>
    </section>
  );
}
