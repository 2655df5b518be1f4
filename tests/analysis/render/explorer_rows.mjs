// Runs functions of report/explorer.js on rows of two GPUs, and prints the rows that are compared.
import fs from "fs";

const source = fs.readFileSync(process.argv[2], "utf8");
const functions = source.slice(source.indexOf("  function isOnChosen"), source.indexOf("  function rowsOf"));
const data = { gpus: ["a", "b", "host"].map((label) => ({ label, recording: label, stale: [] })) };
data.gpus[1].stale.push("older");
const row = (gpu, variant, block_size) => ({
  ...{ gpu, recording: gpu, variant, block_size, threads: null, host_memory: "pinned" },
  ...{ dtype: "float32", shape: null, n: 64 },
});
const rows = [
  ...[row("a", "both", 8), row("b", "both", 8)],
  ...[row("a", "one", 8)],
  ...[row("a", "older", 8), row("b", "older", 8)],
  ...[row("a", "block", 16), row("b", "block", 8)],
];
const make = new Function("data", "rows", "system", `${functions} return [comparable, isOnChosen];`);
const [comparable, isOnChosen] = make(data, rows, (each) => each.gpu ?? each.recording);
const compared = (isCommon, part, gpus = ["a", "b", "host"]) => {
  const choice = { isCommon, part, gpus };
  return [...new Set(comparable(rows.filter(isOnChosen(choice)), choice).map((each) => each.variant))];
};
console.log(JSON.stringify([compared(true, "kernel"), compared(true, "total"), compared(false, "total")]));
