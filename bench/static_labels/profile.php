<?php

declare(strict_types=1);

namespace App\Controller;

use PDO;

final class ProfileController
{
    private PDO $pdo;
    private \mysqli $db;

    public function show(): array
    {
        $id = $_GET['id'];
        $result = $this->db->query("SELECT * FROM profile WHERE id = $id"); // ~bad:89
        return $result->fetch_assoc();
    }

    public function search(string $term): array
    {
        $sql = "SELECT * FROM profile WHERE name LIKE '%" . $term . "%'";
        return $this->pdo->query($sql)->fetchAll(); // ~bad:89
    }

    public function byEmail(string $email): array
    {
        $statement = $this->pdo->prepare('SELECT * FROM profile WHERE email = :email'); // ~ok:89
        $statement->execute(['email' => $email]);
        return $statement->fetchAll();
    }

    public function count(): int
    {
        return (int) $this->pdo->query('SELECT count(*) FROM profile')->fetchColumn(); // ~ok:89
    }

    public function legacy(): void
    {
        mysqli_query($this->db, "UPDATE profile SET bio = '" . $_POST['bio'] . "'"); // ~bad:89
    }

    public function restore(): mixed
    {
        return unserialize($_COOKIE['profile']); // ~bad:502
    }

    public function restoreScalars(string $stored): mixed
    {
        return unserialize($stored, ['allowed_classes' => false]); // ~ok:502
    }

    public function greet(): void
    {
        echo '<h1>Hello ' . $_GET['name'] . '</h1>'; // ~bad:79
    }

    public function greetSafely(): void
    {
        echo '<h1>Hello ' . htmlspecialchars($_GET['name'], ENT_QUOTES) . '</h1>'; // ~ok:79
    }

    public function page(): void
    {
        include 'pages/' . $_GET['page'] . '.php'; // ~bad:98
    }

    public function footer(): void
    {
        include __DIR__ . '/../templates/footer.php'; // ~ok:98
    }

    public function avatar(): void
    {
        readfile('/srv/avatars/' . $_GET['file']); // ~bad:22
    }

    public function resize(string $source): void
    {
        shell_exec('convert ' . $source . ' -resize 100x100 out.png'); // ~bad:78
    }

    public function resizeSafely(string $source): void
    {
        shell_exec('convert ' . escapeshellarg($source) . ' -resize 100x100 out.png'); // ~ok:78
    }

    public function version(): string
    {
        return (string) shell_exec('git rev-parse HEAD'); // ~ok:78
    }

    public function evaluate(string $rule): mixed
    {
        return eval('return ' . $rule . ';'); // ~bad:95
    }

    public function hash(string $password): string
    {
        return md5($password); // ~bad:327
    }

    public function hashSafely(string $password): string
    {
        return password_hash($password, PASSWORD_DEFAULT); // ~ok:327
    }

    public function resetToken(): string
    {
        return md5(uniqid((string) mt_rand(), true)); // ~bad:338
    }

    public function inviteToken(): string
    {
        return bin2hex(random_bytes(24)); // ~ok:338
    }

    public function check(string $given, string $expected): bool
    {
        return $given == $expected;
    }

    public function fetch(string $url): string
    {
        $handle = curl_init($url);
        curl_setopt($handle, CURLOPT_SSL_VERIFYPEER, false); // ~bad:295
        return (string) curl_exec($handle);
    }

    public function back(): void
    {
        header('Location: ' . $_GET['next']); // ~bad:601
    }

    public function home(): void
    {
        header('Location: /home'); // ~ok:601
    }

    public function load(string $name): ?string
    {
        try {
            return $this->read($name);
        } catch (\Exception $e) { // ~bad:390
        }
        return null;
    }

    public function quiet(string $file): string
    {
        return @file_get_contents(__DIR__ . '/cache.json') ?: ''; // ~ok:22
    }
}
