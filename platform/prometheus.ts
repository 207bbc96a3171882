import { Counter, Gauge, Registry } from "@prometheus-io/client";
import { type Clock, nextTurn } from "./time.ts";

// The Prometheus client behind one name: nothing else imports the package, which has moved before.
export { Counter, collectDefaultMetrics, Histogram } from "@prometheus-io/client";

type Labels<List extends string> = List extends `${infer One},${infer More}` ? One | Labels<More> : List;
type LabelsOf<Series extends string> = Series extends `${string}{${infer List}}` ? Labels<List> : never;
type Row<List extends string> = List extends `${string},${infer More}` ? [string, ...Row<More>] : [string, number];
/** Rows of the values of the labels and a number; without labels the number. What is not among them is not shown. */
type Read<Series extends string> = () => Series extends `${string}{${infer List}}` ? Iterable<Row<List>> : number;

/** The metrics of a process, each declared by its name with its labels, `name{one,other}`, and its help. */
export class MetricsRegistry extends Registry {
  /** Read at each request. */
  gauge<Series extends string>(series: Series, help: string, read: Read<Series>): void {
    new Gauge(this.#optionsOf(series, help, read));
  }

  /** With `read`: read at each request, not counted here. */
  counter<Series extends string>(series: Series, help: string, read?: Read<Series>): Counter<LabelsOf<Series>> {
    return new Counter<string>(this.#optionsOf(series, help, read));
  }

  /** As `metrics()`, a metric in each turn of the event loop: those of the process alone take milliseconds. */
  async text(clock: Clock): Promise<{ contentType: string; body: string }> {
    const texts: string[] = [];
    for (const { name } of this.getMetricsAsArray()) {
      texts.push(await this.getSingleMetricAsString(name));
      await nextTurn(clock);
    }
    return { contentType: this.contentType, body: `${texts.join("\n\n")}\n` };
  }

  #optionsOf(series: string, help: string, read?: () => number | Iterable<readonly (string | number)[]>) {
    const [name = "", list] = series.split(/[{}]/);
    const labelNames = list?.split(",") ?? [];
    const options = { name, help, labelNames, registers: [this] };
    if (read === undefined) return options;
    const collect = function (this: Gauge<string> | Counter<string>) {
      this.reset();
      const shown = read();
      for (const row of typeof shown === "number" ? [[shown]] : shown) {
        const labels = Object.fromEntries(labelNames.map((label, at) => [label, row[at] as string]));
        const value = row.at(-1) as number;
        if (this instanceof Gauge) this.set(labels, value);
        else this.inc(labels, value);
      }
    };
    return { ...options, collect };
  }
}
