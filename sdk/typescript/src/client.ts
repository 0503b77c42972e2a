// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import { setMaxListeners } from "node:events";

import type { MessageInitShape } from "@bufbuild/protobuf";
import { createClient, type Client as ConnectClient } from "@connectrpc/connect";

import { type Channel, channelTo } from "./channel.js";
import { type Clock, systemClock } from "./clock.js";
import { findGateway, type GatewayOptions, surroundings } from "./discovery.js";
import { errorOf, wrap } from "./errors.js";
import {
  type CreateSandboxRequestSchema,
  type DeleteSandboxRequestSchema,
  type DeleteSandboxResponse,
  type DeleteServiceRequestSchema,
  type DeleteServiceResponse,
  type ExposeServiceRequestSchema,
  type GetSandboxRequestSchema,
  type GetServiceRequestSchema,
  type HealthResponse,
  type ListSandboxesRequestSchema,
  type ListServicesRequestSchema,
  OpenShell,
  type Sandbox,
  type SandboxResponse,
  type ServiceEndpointResponse,
  type StartSandboxRequestSchema,
  type StopSandboxRequestSchema,
} from "./gen/openshell/v1/openshell_pb.js";
import {
  type ListServiceTransitionsRequestSchema,
  type ListServiceTransitionsResponse,
  ServiceHealthWatch,
  type WaitServiceResponse,
} from "./gen/sandbox/v1/watch_pb.js";
import type { CallOptions, WaitRequest, WatchRequest } from "./options.js";
import { pages } from "./pages.js";
import { link } from "./signals.js";
import { waitForService } from "./wait.js";
import { ServiceWatch } from "./watch.js";

/** Options of connect. */
export interface ConnectOptions extends GatewayOptions {
  /** Allows plain text to another machine. The token travels in plain text, too. */
  insecure?: boolean;
  /** Goes before the library's own, for example "tool/1.2". */
  userAgent?: string;
}

/**
 * Finds a gateway and returns a client of it. It does not wait for the gateway:
 * the first call connects, and so does any call after the connection was lost.
 *
 * What the options leave out is looked for as sandboxctl does: SANDBOX_GATEWAY,
 * SANDBOX_TOKEN, SANDBOX_TOKEN_FILE and SANDBOX_CA_FILE of the environment, then
 * client.json in the state directory of a gateway of this machine
 * (SANDBOX_GATEWAY_STATE_DIR; /var/lib/sandbox-gateway for root; otherwise
 * sandbox-gateway in $XDG_STATE_HOME or ~/.local/state). The token and the
 * authority of client.json are for its own gateway alone.
 *
 * @throws OptionError
 */
export async function connect(options: ConnectOptions = {}): Promise<Client> {
  return Client.over(channelTo(await findGateway(options, surroundings()), options), systemClock);
}

/**
 * A connection to one gateway. It belongs to whoever made it, who closes it.
 *
 * Each call ends with its answer, its options' signal or their timeoutMs; none
 * has a time limit of its own. Watches and waits connect again by themselves; no
 * other call is repeated after it reached the gateway. Requests are not changed.
 *
 * A health is true for the instant at which the gateway answered. A copy of it
 * grows old: after 15 seconds ask again. A watch does that for what it holds.
 *
 * Any call may throw UnauthenticatedError, PermissionDeniedError,
 * UnavailableError, TimeoutError, CanceledError, ResourceExhaustedError,
 * UnimplementedError or a plain SandboxError (a fault of the gateway); what else
 * a call throws, it says.
 */
export class Client implements Disposable {
  readonly #channel: Channel;
  readonly #clock: Clock;
  readonly #ends = new AbortController();
  readonly #api: ConnectClient<typeof OpenShell>;
  readonly #watch: ConnectClient<typeof ServiceHealthWatch>;

  /** @internal Use connect, or the client() of a FakeGateway. */
  static over(channel: Channel, clock: Clock): Client {
    return new Client(channel, clock);
  }

  private constructor(channel: Channel, clock: Clock) {
    // Every call under way listens to it.
    setMaxListeners(0, this.#ends.signal);
    this.#channel = channel;
    this.#clock = clock;
    this.#api = createClient(OpenShell, channel.transport);
    this.#watch = createClient(ServiceHealthWatch, channel.transport);
  }

  /** How the gateway itself is, as deep as its /readyz. It needs no token. */
  health(options?: CallOptions): Promise<HealthResponse> {
    return this.#make("gateway health", options, (o) => this.#api.health({}, o));
  }

  /**
   * Registers a sandbox and, with a driver that can, boots it; serviceExposures
   * are services to expose with it. It does not wait until the sandbox is ready.
   *
   * @throws AlreadyExistsError, InvalidArgumentError
   */
  createSandbox(request: MessageInitShape<typeof CreateSandboxRequestSchema>, options?: CallOptions): Promise<SandboxResponse> {
    return this.#make("create sandbox", options, (o) => this.#api.createSandbox(request, o));
  }

  /** One sandbox. @throws NotFoundError, InvalidArgumentError */
  getSandbox(request: MessageInitShape<typeof GetSandboxRequestSchema>, options?: CallOptions): Promise<SandboxResponse> {
    return this.#make("get sandbox", options, (o) => this.#api.getSandbox(request, o));
  }

  /**
   * Every sandbox that the request selects, page after page; pageToken says
   * where to begin and pageSize how much to fetch at a time (0 leaves it to the
   * gateway). Between two pages sandboxes may come and go.
   *
   * @throws InvalidArgumentError for a selector or token that the gateway cannot read, RepeatedPageError
   */
  listSandboxes(request: MessageInitShape<typeof ListSandboxesRequestSchema> = {}, options?: CallOptions): AsyncGenerator<Sandbox, void, undefined> {
    return pages(request.pageToken ?? "", async (pageToken) => {
      const page = await this.#make("list sandboxes", options, (o) => this.#api.listSandboxes({ ...request, pageToken }, o));
      return { items: page.sandboxes, next: page.nextPageToken };
    });
  }

  /**
   * Ends the processes of a sandbox; its services stay stored.
   *
   * @throws NotFoundError, InvalidArgumentError, FailedPreconditionError in a phase that cannot be stopped
   */
  stopSandbox(request: MessageInitShape<typeof StopSandboxRequestSchema>, options?: CallOptions): Promise<SandboxResponse> {
    return this.#make("stop sandbox", options, (o) => this.#api.stopSandbox(request, o));
  }

  /**
   * Begins a new generation: older tokens and observations no longer count.
   *
   * @throws NotFoundError, InvalidArgumentError, FailedPreconditionError in a phase that cannot be started
   */
  startSandbox(request: MessageInitShape<typeof StartSandboxRequestSchema>, options?: CallOptions): Promise<SandboxResponse> {
    return this.#make("start sandbox", options, (o) => this.#api.startSandbox(request, o));
  }

  /** Deletes a sandbox and its services. @throws NotFoundError unless allowMissing is set, InvalidArgumentError */
  deleteSandbox(request: MessageInitShape<typeof DeleteSandboxRequestSchema>, options?: CallOptions): Promise<DeleteSandboxResponse> {
    return this.#make("delete sandbox", options, (o) => this.#api.deleteSandbox(request, o));
  }

  /**
   * Creates or updates a service. An update without a readinessCheck keeps the
   * stored one; one with an empty path is "/".
   *
   * @throws NotFoundError (no such sandbox), InvalidArgumentError, AbortedError when another update came first
   */
  exposeService(request: MessageInitShape<typeof ExposeServiceRequestSchema>, options?: CallOptions): Promise<ServiceEndpointResponse> {
    return this.#make("expose service", options, (o) => this.#api.exposeService(request, o));
  }

  /**
   * A service with its health at this instant; see healthOf. It starts no probe.
   *
   * @throws NotFoundError, InvalidArgumentError
   */
  getService(request: MessageInitShape<typeof GetServiceRequestSchema>, options?: CallOptions): Promise<ServiceEndpointResponse> {
    return this.#make("get service", options, (o) => this.#api.getService(request, o));
  }

  /**
   * Every service that the request selects, each with its health at the instant
   * its page was answered; otherwise as listSandboxes. An empty sandbox selects
   * the services of all sandboxes in scope.
   *
   * @throws NotFoundError (no such sandbox), InvalidArgumentError, RepeatedPageError
   */
  listServices(
    request: MessageInitShape<typeof ListServicesRequestSchema> = {},
    options?: CallOptions,
  ): AsyncGenerator<ServiceEndpointResponse, void, undefined> {
    return pages(request.pageToken ?? "", async (pageToken) => {
      const page = await this.#make("list services", options, (o) => this.#api.listServices({ ...request, pageToken }, o));
      return { items: page.services, next: page.nextPageToken };
    });
  }

  /** Deletes a service. @throws NotFoundError unless allowMissing is set, InvalidArgumentError */
  deleteService(request: MessageInitShape<typeof DeleteServiceRequestSchema>, options?: CallOptions): Promise<DeleteServiceResponse> {
    return this.#make("delete service", options, (o) => this.#api.deleteService(request, o));
  }

  /**
   * Begins to follow the services that the request selects, those of the
   * default workspace if it is empty. It does not wait for the gateway.
   */
  watchServices(request: WatchRequest = {}, options: { signal?: AbortSignal } = {}): ServiceWatch {
    return ServiceWatch.begin((signal) => this.#watch.watchServices(request, { signal }), this.#clock, link(options.signal, this.#ends.signal));
  }

  /**
   * Waits until the health of a service is one of request.states, or HEALTHY if
   * there are none; answers at once if it is already. timeoutMs is how long to
   * wait. If the gateway is lost meanwhile, it connects again and goes on
   * waiting; one that is not reached at first is UnavailableError.
   *
   * @throws WaitTimeoutError, WaitEndedError (the sandbox or the service is gone, was stopped, or its main process
   * has exited), NotFoundError, InvalidArgumentError
   */
  waitForService(request: WaitRequest, options: CallOptions = {}): Promise<WaitServiceResponse> {
    return this.#make("wait for service", options, (o) => waitForService(this.#watch, this.#channel, this.#clock, request, o));
  }

  /** How the health of a service has changed, as far as the gateway remembers. @throws NotFoundError, InvalidArgumentError */
  listServiceTransitions(
    request: MessageInitShape<typeof ListServiceTransitionsRequestSchema>,
    options?: CallOptions,
  ): Promise<ListServiceTransitionsResponse> {
    return this.#make("list service transitions", options, (o) => this.#watch.listServiceTransitions(request, o));
  }

  /** Ends the connection, and with CanceledError every call, watch and wait under way. */
  close(): void {
    this.#ends.abort();
    this.#channel.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** Makes one call and gives its error the name of the operation. */
  async #make<T>(op: string, options: CallOptions | undefined, call: (options: CallOptions) => Promise<T>): Promise<T> {
    if (this.#ends.signal.aborted) {
      throw errorOf(op, "Canceled", "the client is closed");
    }
    const timeoutMs = options?.timeoutMs;
    if (timeoutMs !== undefined && !(timeoutMs >= 0 && timeoutMs <= mostTimeoutMs)) {
      throw errorOf(op, "InvalidArgument", `timeoutMs: ${timeoutMs} is not within 0..${mostTimeoutMs}`);
    }
    const { signal, release } = link(options?.signal, this.#ends.signal);
    try {
      // Zero would mean no limit to the transport.
      return await call({ signal, ...(timeoutMs === undefined ? {} : { timeoutMs: Math.max(Math.ceil(timeoutMs), 1) }) });
    } catch (thrown) {
      throw wrap(op, thrown, signal);
    } finally {
      release();
    }
  }
}

/** What a timer of Node.js can count, less the grace of a wait. */
const mostTimeoutMs = 2_000_000_000;
