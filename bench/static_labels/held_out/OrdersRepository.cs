using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Security.Cryptography;
using System.Threading.Tasks;
using Dapper;
using Microsoft.AspNetCore.Mvc;
using Microsoft.EntityFrameworkCore;

public class OrdersController : ControllerBase
{
    private readonly ShopContext _db;
    private readonly System.Data.IDbConnection _connection;

    [HttpGet]
    public IEnumerable<Order> Find(string customer)
        => _connection.Query<Order>("select * from orders where customer = '" + customer + "'"); // ~bad:89

    [HttpGet]
    public IEnumerable<Order> FindSafely(string customer)
        => _connection.Query<Order>("select * from orders where customer = @customer", new { customer }); // ~ok:89

    [HttpGet]
    public Task<List<Order>> Raw(string state)
        => _db.Orders.FromSqlRaw($"select * from orders where state = '{state}'").ToListAsync(); // ~bad:89

    [HttpGet]
    public Task<List<Order>> Interpolated(string state)
        => _db.Orders.FromSqlInterpolated($"select * from orders where state = {state}").ToListAsync(); // ~ok:89

    [HttpGet]
    public IActionResult Document(string name)
    {
        var bytes = System.IO.File.ReadAllBytes(Path.Combine("/srv/documents", name)); // ~bad:22
        return File(bytes, "application/pdf");
    }

    [HttpPost]
    public void Print(string printer)
    {
        var info = new ProcessStartInfo("cmd.exe");
        info.Arguments = $"/c print /d:{printer} label.txt"; // ~bad:78
        Process.Start(info);
    }

    public byte[] Encrypt(byte[] key, byte[] text)
    {
        using var aes = Aes.Create();
        aes.Mode = CipherMode.ECB; // ~bad:327
        return aes.CreateEncryptor(key, null).TransformFinalBlock(text, 0, text.Length);
    }

    public string Load()
    {
        return LoadAsync().GetAwaiter().GetResult(); // ~bad:833
    }

    private async Task<string> LoadAsync() => await System.IO.File.ReadAllTextAsync("a.txt"); // ~ok:833
}
