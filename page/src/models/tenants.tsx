/** Tenants: how often each is served, and what it may ask for and keep. */
import { Pencil, Users } from "lucide";
import { useState } from "preact/hooks";
import { api, body, type Schemas } from "../api/client";
import { faultOf, usePolled } from "../api/polled";
import { IconButton } from "../components/button";
import { Empty } from "../components/empty";
import { EditTenant } from "./edit_tenant";
import { LIMITS, written } from "./limits";
import { Part } from "./part";
import { UsageTable } from "./usage_table";

type Tenant = Schemas["TenantView"];

const SELDOM_MS = 30_000;

export function Tenants() {
  const known = usePolled(() => body(api.GET("/v1/tenants")), SELDOM_MS);
  const [edited, setEdited] = useState<Tenant | null>(null);
  const tenants = known.data?.data;
  return (
    <>
      <Part title="Tenants" hint="Whoever has keys. Bold limits are a tenant's own, the others are those of the settings." fault={faultOf(known)}>
        {tenants?.length === 0 && <Empty icon={Users} title="There is no tenant">One is there as soon as it has a key.</Empty>}
        {tenants && tenants.length > 0 && (
          <table class="card rows">
            <thead>
              <tr>
                <th scope="col">Tenant</th><th scope="col" class="num">Weight</th>
                {LIMITS.map(({ name, title }) => <th key={name} scope="col" class="num">{title}</th>)}
                <th scope="col"><span class="only-heard">Actions</span></th>
              </tr>
            </thead>
            <tbody>
              {tenants.map((tenant) => (
                <tr key={tenant.name}>
                  <th scope="row">{tenant.name}</th>
                  <td data-label="Weight" class="num"><Value isOwn={tenant.own.includes("weight")}>{String(tenant.weight)}</Value></td>
                  {LIMITS.map((limit) => (
                    <td key={limit.name} data-label={limit.title} class="num">
                      <Value isOwn={tenant.own.includes(limit.name)}>{written(limit, tenant.limits[limit.name])}</Value>
                    </td>
                  ))}
                  <td class="act"><IconButton icon={Pencil} label={`Change ${tenant.name}`} onClick={() => setEdited(tenant)} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
        {edited && <EditTenant of={edited} onClose={() => setEdited(null)} onChanged={known.again} />}
      </Part>
      {tenants && tenants.length > 0 && <UsageTable tenants={tenants.map(({ name }) => name)} />}
    </>
  );
}

function Value({ isOwn, children }: { isOwn: boolean; children: string }) {
  return isOwn ? <b>{children}</b> : <span class="quiet">{children}</span>;
}
