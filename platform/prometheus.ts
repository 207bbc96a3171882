// The Prometheus client behind one name: nothing else imports the package, which has moved before.
export { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "@prometheus-io/client";
