/** The request of the form as a program: what a developer would send. Pure. */
import type { Draft, Picture } from "./draft";
import { requestOf, type JobCreate } from "./request";

interface Upload {
  variable: string;
  kind: "templates" | "files";
  file: string;
  type: string;
}

/** The request, with a name in place of each picture's id, and the pictures in the order of their upload. */
function named(draft: Draft): { body: JobCreate; uploads: Upload[] } {
  const uploads: Upload[] = [];
  const body = requestOf(draft, (kind, { blob, name }: Pick<Picture, "blob" | "name">) => {
    const variable = `PICTURE_${uploads.length + 1}`;
    uploads.push({ variable, kind, file: name.replaceAll(/[^\w.-]/g, "_") || "picture.png", type: blob.type });
    return `{${variable}}`;
  });
  return { body, uploads };
}

/** As commands of a POSIX shell with curl and jq. */
export function asCurl(draft: Draft, base: string, hasKey: boolean): string {
  const { body, uploads } = named(draft);
  const key = hasKey ? ` \\\n  -H "Authorization: Bearer $ATELIER_API_KEY"` : "";
  const lines = uploads.map(
    ({ variable, kind, file, type }) =>
      `${variable}=$(curl -fsS ${base}/v1/${kind}${key} \\\n  -H 'Content-Type: ${type}' --data-binary @${file} | jq -r .id)`,
  );
  const json = JSON.stringify(body, null, 2);
  const isQuoted = uploads.length === 0;
  const text = isQuoted ? json : json.replaceAll(/[\\$`]/g, "\\$&").replaceAll(/\{(PICTURE_\d+)\}/g, "$$$1");
  lines.push(`curl -fsS ${base}/v1/jobs${key} \\\n  -H 'Content-Type: application/json' -d @- <<${isQuoted ? "'END'" : "END"}\n${text}\nEND`);
  return lines.join("\n\n") + "\n";
}

/** As Python with httpx: it waits for the images and writes them into files. */
export function asPython(draft: Draft, base: string, hasKey: boolean): string {
  const { body, uploads } = named(draft);
  const headers = hasKey ? `, headers={"Authorization": f"Bearer {os.environ['ATELIER_API_KEY']}"}` : "";
  const lines = uploads.map(
    ({ variable, kind, file, type }) =>
      `${variable.toLowerCase()} = service.post("/v1/${kind}", content=Path(${JSON.stringify(file)}).read_bytes(), headers={"Content-Type": "${type}"}).raise_for_status().json()["id"]`,
  );
  const json = literal(body, "").replaceAll(/"\{(PICTURE_\d+)\}"/g, (_, variable: string) => variable.toLowerCase());
  return `${hasKey ? "import os\n" : ""}from pathlib import Path

import httpx

service = httpx.Client(base_url=${JSON.stringify(base)}, timeout=90${headers})
${lines.map((line) => `${line}\n`).join("")}job = service.post("/v1/jobs", json=${json}).raise_for_status().json()
while job["status"] in ("queued", "running"):
    job = service.get(f"/v1/jobs/{job['id']}", params={"wait": 60}).raise_for_status().json()
for image in job["images"]:
    Path(f"{image['seed']}.png").write_bytes(httpx.get(image["url"]).raise_for_status().content)
`;
}

/** A value as Python writes it, a line for each member. */
function literal(value: unknown, indent: string): string {
  const inner = `${indent}    `;
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map((each) => literal(each, indent)).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  const members = Object.entries(value).map(([name, each]) => `${inner}${JSON.stringify(name)}: ${literal(each, inner)},\n`);
  return `{\n${members.join("")}${indent}}`;
}
