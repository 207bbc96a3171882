import type { OpenKubeApi } from "./kube-api.ts";

/** Sends a write only while `whyNot` is null: it is asked before each attempt, and its reason ends the request. */
export function withWriteGuard(api: OpenKubeApi, whyNot: () => string | null): OpenKubeApi {
  return {
    clock: api.clock,
    send: (request) => {
      if (request.method === "GET") return api.send(request);
      return api.send({ ...request, unless: () => whyNot() ?? request.unless?.() ?? null });
    },
    list: (request) => api.list(request),
    watch: (request) => api.watch(request),
    close: () => api.close(),
  };
}
