// The server of field cases B and D: Go with Fiber, an answer that costs next to nothing and one that burns CPU.
//
//	fiber ADDRESS:PORT
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"log"
	"os"

	"github.com/gofiber/fiber/v2"
)

// Rounds of SHA-256 for one /compute: about a tenth of a millisecond with the CPU's instructions for it.
const rounds = 1000

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: fiber ADDRESS:PORT")
	}
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Get("/simple", func(c *fiber.Ctx) error {
		return c.SendString("hello")
	})
	app.Get("/compute", func(c *fiber.Ctx) error {
		sum := sha256.Sum256([]byte("rxlab"))
		for i := 1; i < rounds; i++ {
			sum = sha256.Sum256(sum[:])
		}
		return c.SendString(hex.EncodeToString(sum[:]))
	})
	log.Fatal(app.Listen(os.Args[1]))
}
