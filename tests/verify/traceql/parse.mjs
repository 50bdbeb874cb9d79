// Reads a JSON list of TraceQL queries, writes for each where it is wrong and which attributes it names.
import { readFileSync } from "node:fs";
import { parser } from "@grafana/lezer-traceql";

function look(query) {
  const wrong = [], attributes = [];
  parser.parse(query).iterate({
    enter(node) {
      const text = query.slice(node.from, node.to);
      if (node.type.isError) wrong.push(`at ${node.from}: ${query.slice(Math.max(0, node.from - 20), node.from + 20)}`);
      if (node.name === "AttributeField") attributes.push(text);
    },
  });
  return { wrong, attributes };
}

const queries = JSON.parse(readFileSync(0, "utf-8"));
process.stdout.write(JSON.stringify(queries.map(look)));
