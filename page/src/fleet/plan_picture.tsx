/** The plan in force: a row for each class of prompts, as high as its share, divided among levels. */
import { useState } from "preact/hooks";
import { percent, rate } from "../format/number";
import { clock } from "../format/time";
import type { Palette } from "./levels";
import { groups, isWeighed, sheets, totals, type ClassGroup, type ClassRow, type Plan } from "./plan_rows";

interface Props {
  plan: Plan;
  palette: Palette;
}

const STRATEGIES = { ac: "Images may start from others' latents", sm: "Smaller models alone" };

export function PlanPicture({ plan, palette }: Props) {
  const [chosen, choose] = useState(0);
  const [pointed, point] = useState<ClassRow | null>(null);
  const all = sheets(plan);
  const sheet = all[chosen] ?? all[0];
  if (!sheet) return null;
  const order = [...palette.keys()];
  const used = order.filter((level) => plan.pasm.some(({ shares }) => shares[level]));
  const shown = groups(sheet, plan, order);
  const sums = totals(shown);
  return (
    <section aria-labelledby="plan">
      <h2 id="plan">Plan <span class="quiet num">{plan.version}</span></h2>
      <div class="card plan">
        <p class="small quiet">
          Made at {clock(plan.made_at, { withSeconds: true })} by <code>{plan.policy}</code>. {STRATEGIES[plan.strategy]}
          {plan.switched ? ` since ${clock(plan.switched.at)}: ${plan.switched.cause}.` : "."}
        </p>
        {all.length > 1 && (
          <label class="sheet small">
            <span>Jobs of</span>
            <select value={chosen} onChange={(event) => choose(Number(event.currentTarget.value))}>
              {all.map(({ name }, i) => <option key={name} value={i}>{name}</option>)}
            </select>
          </label>
        )}
        <p class="small">
          Each row is a class of prompts{isWeighed(sheet, plan) ? ", as high as its share of them" : "; which of them come is not known yet"}. Its colours
          are the levels that its images are made at. Left of it: the fastest level that keeps the quality of such prompts.
        </p>
        <ul class="legend">
          {used.filter((level) => sums.get(level)).map((level) => (
            <li key={level}><span class="key" style={{ "--colour": palette.get(level)! }} />{level} <b class="num">{percent(sums.get(level)!)}</b></li>
          ))}
        </ul>
        <div class="mosaic" aria-hidden="true" onPointerLeave={() => point(null)}>
          {shown.map((group) => (
            <div key={group.level} class="group" style={{ flexGrow: grow(group.weight) }}>
              <span class="small quiet">{group.level}</span>
              <div class="classes">
                {group.rows.map((row) => (
                  <div key={row.name} class="class" style={{ flexGrow: grow(row.weight) }} onPointerEnter={() => point(row)}>
                    {used.filter((level) => row.shares[level]).map((level) => (
                      <span key={level} style={{ flexGrow: grow(row.shares[level]!), background: palette.get(level)! }} />
                    ))}
                  </div>
                ))}
              </div>
            </div>
          ))}
        </div>
        <p class="small quiet pointed" aria-hidden="true">{pointed ? said(pointed, used) : "Point at a row to read it."}</p>
        <Rows shown={shown} used={used} name={sheet.name} />
        <Made levels={plan.levels} order={order} />
      </div>
    </section>
  );
}

/** Shares as flexible lengths: those that add up to less than 1 would leave room. */
function grow(share: number): number {
  return 1000 * share;
}

function said({ name, weight, shares }: ClassRow, order: readonly string[]): string {
  const parts = order.filter((level) => shares[level]).map((level) => `${level} ${percent(shares[level]!)}`);
  return `${name}, ${percent(weight)} of the prompts: ${parts.join(", ")}`;
}

function Rows({ shown, used, name }: { shown: readonly ClassGroup[]; used: readonly string[]; name: string }) {
  return (
    <details class="as-table">
      <summary>Its rows as a table</summary>
      <div class="scrolled" tabIndex={0} role="region" aria-label={`Rows of the plan for ${name}`}>
        <table>
          <thead><tr><th scope="col">Class</th><th scope="col" class="num">Prompts</th>{used.map((level) => <th key={level} scope="col" class="num">{level}</th>)}</tr></thead>
          <tbody>
            {shown.flatMap(({ rows }) => rows).map(({ name, weight, shares }) => (
              <tr key={name}>
                <th scope="row">{name}</th><td class="num">{percent(weight)}</td>
                {used.map((level) => <td key={level} class="num">{shares[level] ? percent(shares[level]!) : "–"}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function Made({ levels, order }: { levels: Readonly<Record<string, number>>; order: readonly string[] }) {
  const made = order.filter((level) => levels[level]);
  if (!made.length) return <p class="small quiet">It was made for no demand.</p>;
  return <p class="small quiet">It was made for {made.map((level) => `${rate(levels[level]!)} at ${level}`).join(", ")}.</p>;
}
