// Lints an OpenAPI document with the rules that `redocly lint` recommends; prints the errors.
const { createConfig, lint } = require("@redocly/openapi-core");

(async () => {
  const problems = await lint({ ref: process.argv[2], config: await createConfig({ extends: ["recommended"] }) });
  const errors = problems.filter((p) => p.severity === "error");
  for (const p of errors) console.log(`${p.ruleId}: ${p.message} at ${p.location[0]?.pointer}`);
  console.log(`${errors.length} errors, ${problems.length - errors.length} warnings`);
  process.exit(errors.length ? 1 : 0);
})();
