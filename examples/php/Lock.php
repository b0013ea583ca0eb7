<?php

declare(strict_types=1);

/** The lock was lost, or could not be confirmed: whatever it protects must not be touched any more. */
final class LockLost extends RuntimeException
{
}

/** No coordinator could be reached, or it refused the request. */
final class CoordinatorFailed extends RuntimeException
{
    public function __construct(string $message, public readonly bool $mayRetry)
    {
        parent::__construct($message);
    }
}

/**
 * A lock for the length of one request. PHP does nothing between two statements, so nobody renews the lock in the background: choose
 * a TTL for the slowest request, and call renew() before what must not be done without the lock.
 */
final class Lock
{
    /** Time for a call that does not wait, in seconds. */
    private const CALL = 2.0;

    private bool $released = false;

    private function __construct(
        private readonly string $name,
        private readonly string $ownerId,
        /** Grows with each grant of the name. What the lock protects refuses smaller ones. */
        public readonly string $fencingToken,
        private readonly float $ttl,
        private float $heldUntil,
    ) {
        // For exit(), a fatal error and a client that has gone, which end a script without its `finally`.
        register_shutdown_function($this->release(...));
    }

    /**
     * Waits in line for the lock, for `$wait` seconds at most.
     *
     * @return ?self null if others still hold it then
     * @throws CoordinatorFailed
     * @throws LockLost if the lock was lost before it could be confirmed
     */
    public static function acquire(string $name, float $ttl = 30.0, float $wait = 5.0): ?self
    {
        // An answer can be lost. The same request with the same key takes over what the first one got.
        $key = bin2hex(random_bytes(16));
        $end = self::now() + $wait;
        while (true) {
            $sent = self::now();
            $left = max(0.0, $end - $sent);
            $request = [
                'name' => $name,
                'ttl' => self::duration($ttl),
                'wait' => self::duration($left),
                'requestKey' => $key,
                'clientName' => gethostname() . ':' . getmypid(),
            ];
            try {
                $answer = self::call('Acquire', $request, $left + self::CALL);
                break;
            } catch (CoordinatorFailed $failure) {
                if (!$failure->mayRetry || self::now() >= $end) {
                    throw $failure;
                }
                usleep(200_000);
            }
        }
        if ($answer['outcome'] !== 'ACQUIRE_OUTCOME_GRANTED') {
            return null;
        }
        // Counted from the request, which is never later than the coordinator believes.
        $lock = new self($name, $answer['ownerId'], $answer['fencingToken'], $ttl, $sent + (float) $answer['ttl']);
        if ($lock->remaining() < $ttl / 2) {
            // It waited. The TTL counts from the grant, and nothing says when that was.
            $lock->confirm(self::CALL);
        }
        return $lock;
    }

    /** Seconds for which the lock is held at least; 0 or less once it may be somebody else's. */
    public function remaining(): float
    {
        return $this->heldUntil - self::now();
    }

    /**
     * Asks the coordinator whether the lock is still held, and holds it for its TTL from now.
     *
     * @throws LockLost
     */
    public function renew(): void
    {
        if ($this->remaining() <= 0) {
            throw new LockLost("the TTL of \"$this->name\" is over");
        }
        $this->confirm(min(self::CALL, $this->remaining()));
    }

    /** Gives the lock back; it may be called twice. If that fails, the lock ends with its TTL. */
    public function release(): void
    {
        if ($this->released) {
            return;
        }
        $this->released = true;
        try {
            self::call('Release', ['name' => $this->name, 'ownerId' => $this->ownerId], self::CALL);
        } catch (CoordinatorFailed $failure) {
            error_log("\"$this->name\" could not be released: {$failure->getMessage()}");
        }
    }

    private function confirm(float $seconds): void
    {
        $sent = self::now();
        $request = ['name' => $this->name, 'ownerId' => $this->ownerId, 'ttl' => self::duration($this->ttl)];
        try {
            $answer = self::call('Renew', $request, $seconds);
        } catch (CoordinatorFailed $failure) {
            throw new LockLost("\"$this->name\" could not be renewed: {$failure->getMessage()}", previous: $failure);
        }
        if (!($answer['renewed'] ?? false)) {
            throw new LockLost("\"$this->name\" was lost");
        }
        $this->heldUntil = $sent + (float) $answer['ttl'];
    }

    /**
     * @param array<string, string> $request
     * @return array<string, mixed>
     * @throws CoordinatorFailed
     */
    private static function call(string $method, array $request, float $seconds): array
    {
        // One handle, so that the calls of a request share a connection.
        static $curl = null;
        $curl ??= curl_init();
        $headers = ['content-type: application/json'];
        $tokenFile = getenv('LEASEHOLD_TOKEN_FILE');
        if ($tokenFile !== false) {
            $headers[] = 'authorization: Bearer ' . trim((string) file_get_contents($tokenFile));
        }
        curl_setopt_array($curl, [
            CURLOPT_URL => (getenv('LEASEHOLD_ENDPOINT') ?: 'http://127.0.0.1:7420') . "/leasehold.v1.LockService/$method",
            CURLOPT_HTTPHEADER => $headers,
            CURLOPT_POSTFIELDS => json_encode($request, JSON_THROW_ON_ERROR),
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_TIMEOUT_MS => max(1, (int) ($seconds * 1000)),
        ]);
        $ca = getenv('LEASEHOLD_CA');
        if ($ca !== false) {
            curl_setopt($curl, CURLOPT_CAINFO, $ca);
        }
        $body = curl_exec($curl);
        if ($body === false) {
            throw new CoordinatorFailed(curl_error($curl), mayRetry: true);
        }
        $status = curl_getinfo($curl, CURLINFO_RESPONSE_CODE);
        $answer = json_decode($body, true);
        if ($status !== 200 || !is_array($answer)) {
            throw new CoordinatorFailed($answer['message'] ?? "HTTP status $status", mayRetry: $status === 429 || $status >= 500);
        }
        return $answer;
    }

    private static function duration(float $seconds): string
    {
        return sprintf('%.3Fs', $seconds);
    }

    /** Seconds on a clock that nobody sets and that counts the time for which the machine is suspended, where there is one. */
    private static function now(): float
    {
        static $counts = null;
        $counts ??= is_readable('/proc/uptime');
        return $counts ? (float) file_get_contents('/proc/uptime') : hrtime(true) / 1e9;
    }
}
