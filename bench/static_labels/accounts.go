package accounts

import (
	"crypto/md5"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"database/sql"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	mrand "math/rand"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

type Store struct {
	db    *sql.DB
	mu    sync.Mutex
	cache map[string]string
}

func (s *Store) ByName(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	query := fmt.Sprintf("SELECT id, email FROM accounts WHERE name = '%s'", name) // ~bad:89
	rows, err := s.db.Query(query)
	if err != nil {
		http.Error(w, "query failed", http.StatusInternalServerError)
		return
	}
	defer rows.Close()
}

func (s *Store) Delete(id string) error {
	_, err := s.db.Exec("DELETE FROM accounts WHERE id = " + id) // ~bad:89
	return err
}

func (s *Store) ByEmail(email string) *sql.Row {
	return s.db.QueryRow("SELECT id FROM accounts WHERE email = $1", email) // ~ok:89
}

func (s *Store) Count(table string) (n int, err error) {
	err = s.db.QueryRow("SELECT count(*) FROM accounts").Scan(&n) // ~ok:89
	return n, err
}

func Ping(w http.ResponseWriter, r *http.Request) {
	out, _ := exec.Command("sh", "-c", "ping -c1 "+r.FormValue("host")).Output() // ~bad:78
	w.Write(out)
}

func Uptime() ([]byte, error) {
	return exec.Command("uptime", "-p").Output() // ~ok:78
}

func Avatar(w http.ResponseWriter, r *http.Request) {
	http.ServeFile(w, r, filepath.Join("/srv/avatars", r.URL.Query().Get("file"))) // ~bad:22
}

func Logo(w http.ResponseWriter, r *http.Request) {
	http.ServeFile(w, r, filepath.Join("/srv/static", "logo.png")) // ~ok:22
}

func ReadNote(r *http.Request) ([]byte, error) {
	return os.ReadFile("/srv/notes/" + r.FormValue("note")) // ~bad:22
}

func ReadConfig(dir string) ([]byte, error) {
	return os.ReadFile(filepath.Join(dir, "config.json")) // ~ok:22
}

func PasswordHash(password string) string {
	sum := md5.Sum([]byte(password)) // ~bad:327
	return hex.EncodeToString(sum[:])
}

func Checksum(body []byte) string {
	sum := sha256.Sum256(body) // ~ok:327
	return hex.EncodeToString(sum[:])
}

func SessionToken() string {
	token := make([]byte, 16)
	mrand.Read(token) // ~bad:338
	return hex.EncodeToString(token)
}

func InviteToken() (string, error) {
	token := make([]byte, 16)
	if _, err := rand.Read(token); err != nil { // ~ok:338
		return "", err
	}
	return hex.EncodeToString(token), nil
}

func insecureClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // ~bad:295
	}}
}

func client() *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, // ~ok:295
	}}
}

func Greeting(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "<p>Hello %s</p>", r.URL.Query().Get("name")) // ~bad:79
}

func Bio(text string) template.HTML {
	return template.HTML(text) // ~bad:79
}

func Banner() template.HTML {
	return template.HTML("<strong>Maintenance at noon</strong>") // ~ok:79
}

func (s *Store) Remember(key, value string) {
	s.mu.Lock() // ~bad:667
	if s.cache == nil {
		return
	}
	s.cache[key] = value
	s.mu.Unlock()
}

func (s *Store) Forget(key string) {
	s.mu.Lock() // ~ok:667
	defer s.mu.Unlock()
	delete(s.cache, key)
}

func Fetch(url string) ([]byte, error) {
	resp, err := http.Get(url) // ~bad:772
	if err != nil {
		return nil, err
	}
	return io.ReadAll(resp.Body)
}

func FetchAndClose(url string) ([]byte, error) {
	resp, err := http.Get(url) // ~ok:772
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

func Warm(keys []string, s *Store) {
	for _, key := range keys {
		f, err := os.Open(key)
		if err != nil {
			continue
		}
		defer f.Close() // ~bad:772
		io.Copy(io.Discard, f)
	}
}
