/** IP-Adapters: folders of the service, which jobs may name. */
import { ScanEye } from "lucide";
import { api, body } from "../api/client";
import { faultOf, usePolled } from "../api/polled";
import { Empty } from "../components/empty";
import { Names } from "./cells";
import { Part } from "./part";

const SELDOM_MS = 60_000;

export function IpAdapters() {
  const served = usePolled(() => body(api.GET("/v1/ip-adapters")), SELDOM_MS);
  const found = served.data?.data;
  return (
    <Part title="IP-Adapters" hint="They show a picture to a model beside the prompt. Operators put them on the disk of the service." fault={faultOf(served)}>
      {found?.length === 0 && <Empty icon={ScanEye} title="There is none">Put a folder into ATELIER_IP_ADAPTERS_DIR and start the API again.</Empty>}
      {found && found.length > 0 && (
        <table class="card rows">
          <thead><tr><th scope="col">Name</th><th scope="col">Models</th></tr></thead>
          <tbody>{found.map(({ id, models }) => <tr key={id}><th scope="row"><code>{id}</code></th><td data-label="Models"><Names of={models} /></td></tr>)}</tbody>
        </table>
      )}
    </Part>
  );
}
