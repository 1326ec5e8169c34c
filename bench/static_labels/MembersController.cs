using System;
using System.Data.SqlClient;
using System.Diagnostics;
using System.IO;
using System.Net.Http;
using System.Runtime.Serialization.Formatters.Binary;
using System.Security.Cryptography;
using System.Text;
using System.Threading.Tasks;
using System.Xml;
using Microsoft.AspNetCore.Mvc;
using Newtonsoft.Json;

namespace Club.Web.Controllers
{
    public class MembersController : Controller
    {
        private readonly SqlConnection connection;
        private const string Photos = "/srv/photos";

        public MembersController(SqlConnection connection) => this.connection = connection;

        public IActionResult Find(string name)
        {
            var command = new SqlCommand("SELECT * FROM Members WHERE Name = '" + name + "'", connection); // ~bad:89
            return Json(command.ExecuteScalar());
        }

        public IActionResult FindByCity(string city)
        {
            using var command = connection.CreateCommand();
            command.CommandText = $"SELECT * FROM Members WHERE City = '{city}'"; // ~bad:89
            return Json(command.ExecuteScalar());
        }

        public IActionResult FindById(int id)
        {
            using var command = new SqlCommand("SELECT * FROM Members WHERE Id = @id", connection); // ~ok:89
            command.Parameters.AddWithValue("@id", id);
            return Json(command.ExecuteScalar());
        }

        public object Restore(Stream upload)
        {
            var formatter = new BinaryFormatter(); // ~bad:502
            return formatter.Deserialize(upload);
        }

        public T Read<T>(string json)
        {
            return JsonConvert.DeserializeObject<T>(json, new JsonSerializerSettings
            {
                TypeNameHandling = TypeNameHandling.All // ~bad:502
            });
        }

        public T ReadPlain<T>(string json)
        {
            return JsonConvert.DeserializeObject<T>(json); // ~ok:502
        }

        public IActionResult Photo(string file)
        {
            return PhysicalFile(Path.Combine(Photos, file), "image/png"); // ~bad:22
        }

        public IActionResult Placeholder()
        {
            return PhysicalFile(Path.Combine(Photos, "placeholder.png"), "image/png"); // ~ok:22
        }

        public void Convert(string source)
        {
            Process.Start("cmd.exe", "/c magick " + source + " out.png"); // ~bad:78
        }

        public void Restart()
        {
            Process.Start("systemctl", "restart club"); // ~ok:78
        }

        public string Digest(string password)
        {
            using var md5 = MD5.Create(); // ~bad:327
            return System.Convert.ToHexString(md5.ComputeHash(Encoding.UTF8.GetBytes(password)));
        }

        public string Checksum(byte[] body)
        {
            return System.Convert.ToHexString(SHA256.HashData(body)); // ~ok:327
        }

        public string ResetToken()
        {
            var random = new Random();
            var token = random.Next().ToString("x"); // ~bad:338
            return token;
        }

        public string InviteToken()
        {
            return System.Convert.ToHexString(RandomNumberGenerator.GetBytes(24)); // ~ok:338
        }

        public XmlDocument Parse(string xml)
        {
            var document = new XmlDocument { XmlResolver = new XmlUrlResolver() }; // ~bad:611
            document.LoadXml(xml);
            return document;
        }

        public XmlDocument ParseSafely(string xml)
        {
            var document = new XmlDocument { XmlResolver = null }; // ~ok:611
            document.LoadXml(xml);
            return document;
        }

        public HttpClient Insecure()
        {
            var handler = new HttpClientHandler();
            handler.ServerCertificateCustomValidationCallback = (message, certificate, chain, errors) => true; // ~bad:295
            return new HttpClient(handler);
        }

        public async void Notify(int id) // ~bad:0
        {
            await Task.Delay(10);
            Console.WriteLine(id);
        }

        public async Task NotifyAll() // ~ok:0
        {
            await Task.Delay(10);
        }

        public int Total()
        {
            return Task.Run(() => 42).Result; // ~bad:833
        }

        public bool TryDelete(string path)
        {
            try
            {
                System.IO.File.Delete(path);
            }
            catch (Exception) // ~bad:390
            {
            }
            return true;
        }

        public bool TryMove(string from, string to)
        {
            try
            {
                System.IO.File.Move(from, to);
                return true;
            }
            catch (IOException error) // ~ok:390
            {
                Console.Error.WriteLine(error.Message);
                return false;
            }
        }

        public IActionResult Back(string returnUrl)
        {
            return Redirect(returnUrl); // ~bad:601
        }

        public IActionResult BackSafely(string returnUrl)
        {
            return LocalRedirect(returnUrl); // ~ok:601
        }
    }
}
