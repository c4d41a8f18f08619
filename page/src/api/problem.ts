/** What the service says went wrong: RFC 9457 problem details as an error. */
import type { components } from "./schema";

type Said = components["schemas"]["Problem"];

/** A request that was refused or failed. Its message is a sentence for a person. */
export class Problem extends Error {
  readonly status: number;
  /** `missing-scope`, `invalid-request` and so on; empty where the service did not answer. */
  readonly kind: string;
  /** What is wrong, by the path of the field in the request. */
  readonly fields: ReadonlyMap<string, string>;

  constructor(status: number, said: Partial<Said>) {
    super(said.detail || said.title || `The service answered with status ${status}.`);
    this.status = status;
    this.kind = said.type?.split(":").pop() ?? "";
    this.fields = new Map((said.errors ?? []).map((each) => [each.field, each.detail]));
  }
}

/** Read the problem that an answer holds. */
export async function problemOf(response: Response): Promise<Problem> {
  const said: unknown = await response.json().catch(() => ({}));
  return new Problem(response.status, said as Partial<Said>);
}

/** Say any error as a sentence; a request that got no answer says so. */
export function sentence(error: unknown): string {
  if (error instanceof Problem) return error.message;
  if (error instanceof TypeError) return "The service does not answer. Is it running?";
  return error instanceof Error ? error.message : String(error);
}
