<?php

declare(strict_types=1);

// Sells one piece of ?sku=…: a page as PHP-FPM or any server runs it, once for each request and many at a time.

require __DIR__ . '/Lock.php';

/** Stock in a file, which refuses what was decided under an older lock. */
final class Stock
{
    public function __construct(private readonly string $path)
    {
    }

    public function left(): int
    {
        return json_decode((string) file_get_contents($this->path), true)['left'];
    }

    /** @return bool false if a later holder of the lock has written */
    public function write(int $left, string $fencingToken): bool
    {
        $file = fopen($this->path, 'r+');
        flock($file, LOCK_EX);
        $newest = json_decode((string) stream_get_contents($file), true)['token'];
        $accepted = (int) $fencingToken >= $newest;
        if ($accepted) {
            ftruncate($file, 0);
            rewind($file);
            fwrite($file, json_encode(['left' => $left, 'token' => (int) $fencingToken]));
        }
        fclose($file);
        return $accepted;
    }
}

function answer(int $status, string $text): never
{
    http_response_code($status);
    if ($status === 503) {
        header('Retry-After: 1');
    }
    exit("$text\n");
}

function charge(): void
{
    usleep((int) ((float) (getenv('PAYMENT_SECONDS') ?: 0.05) * 1e6));
}

$sku = $_GET['sku'] ?? '';
if (!preg_match('/^[a-z0-9-]{1,32}$/', $sku)) {
    answer(400, 'sku must be 1 to 32 letters, digits and hyphens');
}
try {
    $lock = Lock::acquire("stock/$sku", ttl: 3, wait: 5) ?? answer(503, 'busy, please try again');
    $stock = new Stock(getenv('STOCK_DIR') . "/$sku.json");
    $left = $stock->left();
    if ($left === 0) {
        answer(410, 'sold out');
    }
    // It takes a while, and may take longer than the lock lasts.
    charge();
    $lock->renew();
    $stock->write($left - 1, $lock->fencingToken) || throw new LockLost('a later holder has written');
    $lock->release();
    answer(200, "sold under token $lock->fencingToken");
} catch (LockLost $lost) {
    // Here the payment would be taken back.
    answer(503, "not sold: {$lost->getMessage()}");
} catch (CoordinatorFailed $failure) {
    error_log($failure->getMessage());
    answer(503, 'busy, please try again');
}
