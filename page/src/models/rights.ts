/** What the key of this tab may do, found out by asking for what only operators see. */
import { api } from "../api/client";
import { Problem } from "../api/problem";

export interface Rights {
  /** Models may be added and removed. */
  operates: boolean;
  /** There are tenants and keys: a service that asks for no keys has neither. */
  hasKeys: boolean;
}

export async function rights(): Promise<Rights> {
  try {
    await api.GET("/v1/keys");
    return { operates: true, hasKeys: true };
  } catch (fault) {
    if (fault instanceof Problem && fault.status === 409) return { operates: true, hasKeys: false };
    if (fault instanceof Problem && fault.status === 403) return { operates: false, hasKeys: true };
    throw fault;
  }
}
