// Answers questions with the reference implementation: one JSON object per line in, one per line out.
//   node reference_oracle.mjs <folder of the package @mcptoolshop/rig-bridge>
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const engine = pathToFileURL(`${process.argv[2]}/dist/engine/`);
const { parseEnvelope, renderEnvelope } = await import(new URL("envelope.js", engine));
const { bodyHash, normalizeBody } = await import(new URL("body-hash.js", engine));
const { validateFrontmatter } = await import(new URL("schema-validator.js", engine));
const { markerToStatusClass } = await import(new URL("status.js", engine));
process.removeAllListeners("warning"); // unresolved tags are warned about; stderr is for failures

function read(base64) {
  const { frontmatter, body } = parseEnvelope(Buffer.from(base64, "base64").toString("utf8"));
  const { errors } = validateFrontmatter(frontmatter);
  return { frontmatter, body, hash: bodyHash(body), paths: (errors ?? []).map((e) => e.instancePath || "/") };
}

const answers = {
  read: ({ raw }) => read(raw),
  write: ({ frontmatter, body }) => ({ text: renderEnvelope({ frontmatter, body }) }),
  normalise: ({ body }) => ({ body: normalizeBody(body), hash: bodyHash(body) }),
  statusClass: ({ status }) => ({ statusClass: markerToStatusClass(status) }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const question = JSON.parse(line);
  let answer;
  try {
    answer = answers[question.ask](question);
  } catch (error) {
    answer = { error: String(error.message).split("\n")[0] };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
