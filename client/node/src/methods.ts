/**
 * Methods of the services, as gRPC calls them.
 *
 * @module
 */

import {
  create,
  type DescMessage,
  type DescMethod,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { AdminService } from "./generated/leasehold/v1/admin_pb";
import { ElectionService } from "./generated/leasehold/v1/election_pb";
import { LockService } from "./generated/leasehold/v1/lock_pb";

/** One method. */
export interface Method<Request, Response> {
  readonly path: string;
  readonly encode: (request: Request) => Buffer;
  readonly decode: (bytes: Buffer) => Response;
}

type Typed<I extends DescMessage, O extends DescMessage> = DescMethod & {
  readonly input: I;
  readonly output: O;
};

function method<I extends DescMessage, O extends DescMessage>({
  parent,
  name,
  input,
  output,
}: Typed<I, O>): Method<MessageInitShape<I>, MessageShape<O>> {
  return {
    path: `/${parent.typeName}/${name}`,
    encode: (request) => Buffer.from(toBinary(input, create(input, request))),
    decode: (bytes) => fromBinary(output, bytes),
  };
}

export const SESSION = method(LockService.method.session);
export const ACQUIRE = method(LockService.method.acquire);
export const RENEW = method(LockService.method.renew);
export const RELEASE = method(LockService.method.release);
export const LEADER = method(ElectionService.method.leader);
export const OBSERVE = method(ElectionService.method.observe);
export const LIST_LOCKS = method(AdminService.method.listLocks);
export const GET_LOCK = method(AdminService.method.getLock);
export const LIST_SESSIONS = method(AdminService.method.listSessions);
export const WATCH_LOCKS = method(AdminService.method.watchLocks);
export const FORCE_RELEASE = method(AdminService.method.forceRelease);
export const REQUEST_RELEASE = method(AdminService.method.requestRelease);
export const END_SESSION = method(AdminService.method.endSession);
export const CHECK_TOKEN = method(AdminService.method.checkToken);
export const GET_STATUS = method(AdminService.method.getStatus);
