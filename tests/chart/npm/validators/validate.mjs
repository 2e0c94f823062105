// Reads a JSON list of custom resources, writes a JSON list of what is wrong with each ("" for nothing).
// node validate.mjs FOLDER-OF-NODE_MODULES
import { pathToFileURL } from "node:url";

const packages = {
  "keda.sh/v1alpha1": "@kubernetes-models/keda/keda.sh/v1alpha1",
  "monitoring.coreos.com/v1": "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1",
};

async function fault(resource) {
  const folder = packages[resource.apiVersion];
  if (folder === undefined) return `nothing is known of ${resource.apiVersion}`;
  const { [resource.kind]: Model } = await import(pathToFileURL(`${process.argv[2]}/${folder}/${resource.kind}.js`));
  try {
    new Model(resource).validate();
    return "";
  } catch (error) {
    return error.message;
  }
}

let text = "";
for await (const part of process.stdin) text += part;
console.log(JSON.stringify(await Promise.all(JSON.parse(text).map(fault))));
