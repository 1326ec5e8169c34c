package shop

import (
	"crypto/des"
	"encoding/gob"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"github.com/gin-gonic/gin"
	"gorm.io/gorm"
)

type Handler struct{ db *gorm.DB }

func (h *Handler) Search(c *gin.Context) {
	var items []Item
	term := c.Query("term")
	h.db.Raw("SELECT * FROM items WHERE title LIKE '%" + term + "%'").Scan(&items) // ~bad:89
	c.JSON(200, items)
}

func (h *Handler) Filter(c *gin.Context) {
	var items []Item
	h.db.Where("state = '" + c.Query("state") + "'").Find(&items) // ~bad:89
	c.JSON(200, items)
}

func (h *Handler) ByID(c *gin.Context) {
	var item Item
	h.db.First(&item, "id = ?", c.Param("id")) // ~ok:89
	c.JSON(200, item)
}

func (h *Handler) Picture(c *gin.Context) {
	name := c.Param("name")
	data, err := os.ReadFile("/srv/pictures/" + name) // ~bad:22
	if err != nil {
		c.Status(404)
		return
	}
	c.Data(200, "image/png", data)
}

func (h *Handler) Archive(c *gin.Context) {
	target := c.PostForm("target")
	cmd := exec.Command("bash", "-c", "tar czf "+target+".tgz items") // ~bad:78
	c.JSON(200, cmd.Run() == nil)
}

func (h *Handler) Proxy(c *gin.Context) {
	resp, err := http.Get(c.Query("url")) // ~bad:918
	if err != nil {
		return
	}
	defer resp.Body.Close()
}

func encrypt(key, text []byte) ([]byte, error) {
	block, err := des.NewCipher(key) // ~bad:327
	if err != nil {
		return nil, err
	}
	out := make([]byte, len(text))
	block.Encrypt(out, text)
	return out, nil
}

func restore(r *http.Request, into any) error {
	return gob.NewDecoder(r.Body).Decode(into) // ~ok:502
}

func tags(c *gin.Context) []string {
	return strings.Split(c.Query("tags"), ",") // ~ok:89
}
