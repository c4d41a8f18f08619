/** What the plan was made for, application by application. */
import { rate } from "../format/number";
import type { Plan } from "./plan_rows";

export function Demand({ plan }: { plan: Plan }) {
  const asked = Object.entries(plan.demand).sort(([, a], [, b]) => b - a);
  return (
    <section aria-labelledby="demand">
      <h2 id="demand">Demand</h2>
      <div class="card queues">
        <table>
          <thead><tr><th scope="col">Application</th><th scope="col" class="num">Forecast</th></tr></thead>
          <tbody>{asked.map(([name, each]) => <tr key={name}><th scope="row">{name}</th><td class="num">{rate(each)}</td></tr>)}</tbody>
        </table>
        <p class="quiet small">Jobs of default size a second, as the plan expects them.</p>
      </div>
    </section>
  );
}
