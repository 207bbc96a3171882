import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { network, run, TestDaemon } from "../harness/daemon.ts";
import { readManifests } from "../harness/kube-manifests.ts";
import { until } from "../harness/wait.ts";

/** Alerts and dashboard, by a real Prometheus. */

const ROOT = join(import.meta.dirname, "../..");
const DIRECTORY = join(ROOT, "deploy/observability");
interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly annotations: { readonly summary: string; readonly runbook: string };
}
const { spec } = readManifests(join(DIRECTORY, "rules.yaml"))[0];
const RULES: readonly Rule[] = spec.groups[0].rules;
const dashboard = JSON.parse(readFileSync(join(DIRECTORY, "dashboard.json"), "utf8"));
const PANELS: {
  title: string;
  targets?: { expr: string }[];
  gridPos: { x: number; y: number; w: number; h: number };
}[] = dashboard.panels;

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "holdfast-observability-"));
  writeFileSync(join(directory, "rules.yml"), stringify(spec));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

test("promtool accepts the rules, and each leads to a section of the page that exists", async () => {
  expect(await run("promtool", ["check", "rules", join(directory, "rules.yml")])).toMatchObject({ code: 0 });
  const page = readFileSync(join(ROOT, "docs/alerts.md"), "utf8");
  const sections = [...page.matchAll(/^## (\w+)$/gm)].map(([, name]) => name);
  expect(sections).toEqual(RULES.map(({ alert }) => alert));
  for (const { alert, annotations } of RULES) expect(annotations.runbook).toBe(`docs/alerts.md#${alert.toLowerCase()}`);
});

/** A minute of each series, as promtool writes them, that makes an alert fire; and what keeps it silent. */
const CASES: Readonly<
  Record<string, { readonly fires: readonly [string, string][]; readonly silent: readonly [string, string][] }>
> = {
  HoldfastNodeNotReady: { fires: [["holdfast_ready", "0x60"]], silent: [["holdfast_ready", "1 0 0 1x60"]] },
  HoldfastNetworkNearlyFull: {
    fires: [
      ['holdfast_cluster_network_addresses{network="blue",state="free"}', "9x60"],
      ['holdfast_cluster_network_size_addresses{network="blue"}', "100x60"],
    ],
    silent: [
      ['holdfast_cluster_network_addresses{network="blue",state="free"}', "11x60"],
      ['holdfast_cluster_network_size_addresses{network="blue"}', "100x60"],
    ],
  },
  HoldfastNodeNetworkNearlyFull: {
    fires: [
      ['holdfast_network_addresses{instance="n",network="blue",subnets="s",state="free"}', "1x60"],
      ['holdfast_network_size_addresses{instance="n",network="blue",subnets="s"}', "100x60"],
    ],
    silent: [
      ['holdfast_network_addresses{instance="n",network="blue",subnets="s",state="free"}', "1x60"],
      ['holdfast_network_size_addresses{instance="n",network="blue",subnets="s"}', "100x60"],
      ['holdfast_cluster_network_size_addresses{network="blue"}', "100x60"],
    ],
  },
  HoldfastAddressTakenAway: {
    fires: [["holdfast_attachments_lost", "1x60"]],
    silent: [["holdfast_attachments_lost", "0x60"]],
  },
  HoldfastInternalErrors: {
    fires: [['holdfast_cni_refusals_total{code="INTERNAL_ERROR"}', "0+1x60"]],
    silent: [['holdfast_cni_refusals_total{code="NETWORK_FULL"}', "0+1x60"]],
  },
  HoldfastAddsSlow: {
    fires: [
      ['holdfast_cni_request_duration_seconds_bucket{verb="ADD",le="5"}', "0x60"],
      ['holdfast_cni_request_duration_seconds_bucket{verb="ADD",le="10"}', "0+9x60"],
      ['holdfast_cni_request_duration_seconds_bucket{verb="ADD",le="+Inf"}', "0+9x60"],
    ],
    silent: [
      ['holdfast_cni_request_duration_seconds_bucket{verb="ADD",le="5"}', "0+9x60"],
      ['holdfast_cni_request_duration_seconds_bucket{verb="ADD",le="10"}', "0+9x60"],
      ['holdfast_cni_request_duration_seconds_bucket{verb="ADD",le="+Inf"}', "0+9x60"],
    ],
  },
  HoldfastReleasesOutstanding: {
    fires: [["holdfast_outbox_entries", "3x60"]],
    silent: [["holdfast_outbox_entries", "3 3 3 0x60"]],
  },
  HoldfastDelsUnreadable: {
    fires: [['holdfast_spool_files{state="bad"}', "1x60"]],
    silent: [['holdfast_spool_files{state="waiting"}', "1x60"]],
  },
  HoldfastNoController: {
    fires: [
      ['holdfast_controller_leader{instance="a"}', "0x60"],
      ['holdfast_controller_leader{instance="b"}', "0x60"],
    ],
    silent: [
      ['holdfast_controller_leader{instance="a"}', "0x60"],
      ['holdfast_controller_leader{instance="b"}', "1x60"],
    ],
  },
  HoldfastControllerBlind: {
    fires: [['holdfast_controller_resource_synced{resource="pods"}', "0x60"]],
    silent: [['holdfast_controller_resource_synced{resource="pods"}', "1x60"]],
  },
  HoldfastReleasesOverdue: {
    fires: [["holdfast_controller_overdue_seconds", "700x60"]],
    silent: [["holdfast_controller_overdue_seconds", "500x60"]],
  },
  HoldfastClaimConflicts: {
    fires: [["holdfast_controller_claim_conflicts", "1x60"]],
    silent: [["holdfast_controller_claim_conflicts", "0x60"]],
  },
  HoldfastMetadataPortsMissing: {
    fires: [
      ['holdfast_metadata_ports{state="up"}', "1x60"],
      ['holdfast_metadata_ports{state="wanted"}', "2x60"],
    ],
    silent: [
      ['holdfast_metadata_ports{state="up"}', "2x60"],
      ['holdfast_metadata_ports{state="wanted"}', "2x60"],
    ],
  },
};

describe("each alert", () => {
  test("has its cases", () => expect(Object.keys(CASES)).toEqual(RULES.map(({ alert }) => alert)));

  test.each(["fires", "silent"] as const)("%s", async (kind) => {
    const tests = Object.entries(CASES).map(([alert, cases]) => ({
      interval: "1m",
      input_series: cases[kind].map(([series, values]) => ({ series, values })),
      promql_expr_test: [
        {
          expr: `count(ALERTS{alertname="${alert}",alertstate="firing"}) > 0 or vector(0)`,
          eval_time: "50m",
          exp_samples: [{ labels: "{}", value: kind === "fires" ? 1 : 0 }],
        },
      ],
    }));
    const file = join(directory, `${kind}.yml`);
    writeFileSync(file, stringify({ rule_files: ["rules.yml"], evaluation_interval: "1m", tests }));
    const { code, stdout, stderr } = await run("promtool", ["test", "rules", file]);
    expect(code, `${stdout}${stderr}`).toBe(0);
  });
});

test("no panel lies over another one, and each asks something", () => {
  for (const one of PANELS) {
    expect(one.gridPos.x + one.gridPos.w).toBeLessThanOrEqual(24);
    for (const other of PANELS.slice(PANELS.indexOf(one) + 1)) {
      const [a, b] = [one.gridPos, other.gridPos];
      const overlaps = a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
      expect(overlaps, `${one.title} and ${other.title}`).toBe(false);
    }
  }
});

test("a Prometheus that scrapes a daemon answers every question of the dashboard and of the alerts", async () => {
  const [metrics, port] = [await freePort(), await freePort()];
  const daemon = await TestDaemon.start({ args: ["--metrics-address", `127.0.0.1:${metrics}`] });
  const scrape = {
    job_name: "holdfast",
    scrape_interval: "1s",
    static_configs: [{ targets: [`127.0.0.1:${metrics}`] }],
  };
  writeFileSync(join(directory, "prometheus.yml"), stringify({ scrape_configs: [scrape], rule_files: ["rules.yml"] }));
  const words = [
    `--config.file=${directory}/prometheus.yml`,
    `--storage.tsdb.path=${directory}/data`,
    `--web.listen-address=127.0.0.1:${port}`,
  ];
  const prometheus = spawn("prometheus", words, { stdio: "ignore" });
  try {
    await daemon.cni("ADD", "web", { config: network("blue", { subnets: "10.10.0.0/28" }) });
    const ask = async (expr: string) => {
      const query = encodeURIComponent(expr.replaceAll("$__rate_interval", "1m"));
      const answer = await fetch(`http://127.0.0.1:${port}/api/v1/query?query=${query}`);
      return (await answer.json()) as {
        status: string;
        error?: string;
        data: { result: { metric: Record<string, string>; value: [number, string] }[] };
      };
    };
    await until(
      async () => (await ask("holdfast_ready").catch(() => null))?.data?.result?.[0]?.value[1] === "1",
      "the first scrape",
      60_000,
    );
    const asked = [...PANELS.flatMap(({ targets = [] }) => targets), ...RULES].map(({ expr }) => expr);
    expect(asked.length).toBeGreaterThan(30);
    for (const expr of asked) expect(await ask(expr), expr).toMatchObject({ status: "success" });
    const [full] = (
      await ask((PANELS.find(({ title }) => title.startsWith("How full (each"))?.targets ?? [])[0]?.expr ?? "")
    ).data.result;
    expect(full?.metric).toMatchObject({ network: "blue" });
    expect(Number(full?.value[1])).toBeGreaterThan(0);
    // What is asked for exists: by the text of the metrics of whoever has them.
    const sources = (
      await run("grep", [
        "-rhoE",
        '"holdfast_[a-z_]+["{]',
        join(ROOT, "daemon"),
        join(ROOT, "controller"),
        join(ROOT, "metadata"),
        join(ROOT, "guests"),
        join(ROOT, "kube"),
        join(ROOT, "platform"),
      ])
    ).stdout;
    const known = new Set(sources.split("\n").map((name) => name.replaceAll(/["{]/g, "")));
    for (const [name] of asked.join(" ").matchAll(/holdfast_[a-z_]+/g))
      expect(known, name).toContain(name.replace(/_(bucket|count|sum)$/, ""));
  } finally {
    const ended = once(prometheus, "close");
    prometheus.kill("SIGTERM");
    await ended;
    await daemon.stop();
  }
}, 120_000);

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}
