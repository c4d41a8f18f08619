/** What each tenant has used in a month, and keeps now. */
import { useEffect, useState } from "preact/hooks";
import { api, body, type Schemas } from "../api/client";
import { sentence } from "../api/problem";
import { Notice } from "../components/notice";
import { bytes, count, price } from "../format/number";
import { seconds } from "../format/time";
import { SelectField } from "../components/select_field";

type Usage = Schemas["UsageView"];

const MONTH = new Intl.DateTimeFormat("en", { month: "long", year: "numeric", timeZone: "UTC" });
/** Requests at a time. */
const AT_ONCE = 6;

/** The first days of this month and of those before, of UTC. */
function months(): readonly (readonly [string, string])[] {
  const now = new Date();
  return Array.from({ length: 6 }, (_, ago) => {
    const first = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - ago, 1));
    return [first.toISOString().slice(0, 10), MONTH.format(first)] as const;
  });
}

function lastDayOf(first: string): string {
  const at = new Date(first);
  return new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1, 0)).toISOString().slice(0, 10);
}

export function UsageTable({ tenants }: { tenants: readonly string[] }) {
  const [choices] = useState(months);
  const [start, setStart] = useState(choices[0]![0]);
  const [found, setFound] = useState<readonly Usage[] | null>(null);
  const [fault, setFault] = useState<string | null>(null);
  useEffect(() => {
    let isCurrent = true;
    readAll(tenants, start).then(
      (usages) => isCurrent && setFound(usages),
      (error: unknown) => isCurrent && setFault(sentence(error)),
    );
    return () => void (isCurrent = false);
  }, [start, tenants.join()]);
  const hasCost = found?.some(({ total }) => total.cost !== null);
  return (
    <section class="part" aria-labelledby="usage">
      <header class="part-head">
        <div><h2 id="usage">Usage</h2><p class="quiet small">Each job counts once, when it ends. What is kept is as of now.</p></div>
        <SelectField name="month" label="Month, of UTC" value={start} options={choices} onChange={setStart} />
      </header>
      {fault && <Notice kind="bad">{fault}</Notice>}
      {found && (
        <table class="card rows">
          <thead>
            <tr>
              <th scope="col">Tenant</th><th scope="col" class="num">Images</th><th scope="col" class="num">Jobs not made</th>
              <th scope="col" class="num">Device time</th>{hasCost && <th scope="col" class="num">Cost</th>}<th scope="col" class="num">Open jobs</th><th scope="col" class="num">Kept</th>
            </tr>
          </thead>
          <tbody>
            {found.map(({ tenant, total, kept_bytes, open_jobs }) => (
              <tr key={tenant}>
                <th scope="row">{tenant}</th>
                <td data-label="Images" class="num">{count(total.images)}</td>
                <td data-label="Jobs not made" class="num">{count(total.jobs.failed + total.jobs.expired + total.jobs.canceled)}</td>
                <td data-label="Device time" class="num">{seconds(total.gpu_seconds)}</td>
                {hasCost && <td data-label="Cost" class="num">{total.cost === null ? "not known" : price(total.cost)}</td>}
                <td data-label="Open jobs" class="num">{count(open_jobs)}</td>
                <td data-label="Kept" class="num">{bytes(kept_bytes)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

/** Ask for every tenant, some at a time. */
async function readAll(tenants: readonly string[], start: string): Promise<Usage[]> {
  const found: Usage[] = [];
  for (let at = 0; at < tenants.length; at += AT_ONCE) {
    const some = tenants.slice(at, at + AT_ONCE);
    found.push(...(await Promise.all(some.map((tenant) => read(tenant, start)))));
  }
  return found;
}

function read(tenant: string, start: string): Promise<Usage> {
  return body(api.GET("/v1/usage", { params: { query: { tenant, start, end: lastDayOf(start), by: "month" } } }));
}
