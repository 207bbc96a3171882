import type { ClientRequest } from "node:http";
import type { Socket } from "node:net";

/**
 * Hears the errors of the request's connection for as long as it lives. Between the end of an answer and the return of
 * the connection to its agent, Node's client listens no more; an error that is reported then, such as the reason for
 * which the request was destroyed, or a reset, would end the process. Nothing is lost: the request reports each error
 * that concerns it.
 */
export function hearSocketErrors(request: ClientRequest): ClientRequest {
  return request.on("socket", hear);
}

function hear(socket: Socket): void {
  // A connection that is kept serves many requests.
  if (!socket.listeners("error").includes(ignore)) socket.on("error", ignore);
}

function ignore(): void {}
