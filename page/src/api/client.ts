/** Requests to the service, typed by its own description of itself (`schema.d.ts`). */
import createClient from "openapi-fetch";
import { authorization, key, keyWanted } from "./key";
import { problemOf } from "./problem";
import type { Readable } from "openapi-typescript-helpers";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];
export type Job = Readable<Schemas["JobView"]>;

/** Where the service stands: beside the page, whatever path a proxy gives both. */
export const BASE = new URL(".", document.baseURI).href.replace(/\/$/, "");

/** Send any request with the key; raises `Problem` for whatever is not a success. */
export async function send(request: Request): Promise<Response> {
  const sentWith = key.value;
  for (const [name, value] of Object.entries(authorization())) request.headers.set(name, value);
  const response = await fetch(request);
  if (response.ok) return response;
  const problem = await problemOf(response);
  // What was sent with another key than there is now says nothing of this one, however late it comes.
  if (response.status === 401 && sentWith === key.value) keyWanted.value = problem.message;
  throw problem;
}

/** One method a verb, each typed by path: `api.GET("/v1/models")`. */
export const api = createClient<paths>({ baseUrl: BASE, fetch: send });

/** Take the body of a successful answer: `await body(api.GET("/v1/models"))`. */
export async function body<T>(asked: Promise<{ data?: T }>): Promise<T> {
  return (await asked).data as T;
}

/** Send a file as a whole body, as uploads are sent, and read the answer. */
export async function upload<T>(path: string, file: Blob, type?: string): Promise<T> {
  const headers = { "Content-Type": type ?? (file.type || "application/octet-stream") };
  const asked = new Request(`${BASE}${path}`, { method: "POST", headers, body: file });
  return (await send(asked)).json() as Promise<T>;
}
